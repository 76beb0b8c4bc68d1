package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	natsstore "github.com/shardgen/shardgen/store/nats"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

var (
	web1 = transport.Address{Name: "web-1", Incarnation: 1}
	web2 = transport.Address{Name: "web-2", Incarnation: 2}
)

// TestShardTables: a shard that moves has a row at each of its members, one without a home has a
// row too, and tables fit 80 columns.
func TestShardTables(t *testing.T) {
	rows, silent := shardRows([]admin.NodeShards{
		{Node: web2, Types: []admin.Type{{Kind: "Cart", Homeless: []uint32{7}, Held: []admin.Shard{{Shard: 5, State: "prepared"}}}}},
		{Node: web1, Types: []admin.Type{{Kind: "Cart", Homeless: []uint32{7}, Held: []admin.Shard{
			{Shard: 4, State: "active", Entities: 123_456, Active: 12}, {Shard: 5, State: "sent", Waiting: 3},
		}}}},
		{Node: transport.Address{Name: "web-3", Incarnation: 3}, Err: errors.New("no answer")},
	})
	require.Equal(t, map[string]string{"web-3#0000000000000003": "no answer"}, silent)
	var sums, each strings.Builder
	require.NoError(t, printShardSums(&sums, &options{}, rows))
	require.Equal(t, strings.TrimLeft(`
TYPE  NODE    SHARDS  MOVING  ENTITIES  IN MEMORY  WAITING
Cart  (none)  1       0       0         0          0
Cart  web-1   1       1       123456    12         3
Cart  web-2   0       1       0         0          0
`, "\n"), sums.String())
	require.NoError(t, printShards(&each, &options{}, rows))
	require.Equal(t, strings.TrimLeft(`
SHARD  NODE    STATE     ENTITIES  IN MEMORY  WAITING
4      web-1   active    123456    12         0
5      web-1   sent      0         0          3
5      web-2   prepared  0         0          0
7      (none)  no home   0         0          0
`, "\n"), each.String())
}

// TestQuestions asks a cluster of a real broker whether it is healthy, for homes and their reasons,
// and for its counters.
func TestQuestions(t *testing.T) {
	url := natsproc.Start(t).URL()
	env := map[string]string{"NATS_URL": url, "SHARD_CLUSTER": "shop"}
	shardctl(t, env, "status -json").check(t, "status -json", exitFailed, "no process of this cluster answers", "not healthy")
	node := shard.New(shard.Config{
		Cluster: "shop", Name: "a", Transport: natstransport.New(url), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = node.Close() })
	require.NoError(t, fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }))
	require.NoError(t, node.Start(t.Context()))
	_, err := fixture.NewAccountClient(node).Ref("alice").Add(t.Context(), 5)
	require.NoError(t, err)

	shardctl(t, env, "status").check(t, "status", exitOK, "shop is healthy: 1 members, 1 types, 256 shards\n", "")
	shardctl(t, env, "shards").check(t, "shards", exitOK, "Account  a     256     0       1         1          0\n", "")
	shardctl(t, env, "shards Nobody").check(t, "shards Nobody", exitFailed, "", "no member hosts the type Nobody")
	var listed jsonShards
	require.NoError(t, json.Unmarshal([]byte(shardctl(t, env, "shards Account -json").stdout), &listed))
	require.Len(t, listed.Shards, 256)
	require.Equal(t, "active", listed.Shards[0].State)

	at, err := node.Locate(t.Context(), "Account", "alice")
	require.NoError(t, err)
	var place jsonPlace
	got := shardctl(t, env, "where Account alice -json")
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &place), got.stderr)
	since := at.Since.UTC()
	require.WithinDuration(t, time.Now(), since, time.Minute)
	require.Equal(t, jsonPlace{"Account", "alice", at.Shard, "a", at.Epoch, at.Why, &since}, place)
	require.NotEmpty(t, place.Why)
	shardctl(t, env, "where Account alice").check(t, "where", exitOK, "which is at a under epoch "+at.Epoch+" since "+at.Since.Local().Format(time.DateTime)+"\nwhy: "+at.Why, "")
	shardctl(t, env, "where Nobody x").check(t, "where Nobody x", exitFailed, "", "no member hosts the type Nobody (there are: [Account])")
	shardctl(t, env, "where Account").check(t, "where Account", exitFailed, "", "no member hosts a singleton Account (for an entity, give its ID)")
	shardctl(t, env, "counters").check(t, "counters", exitOK, "COUNT  REASON", "")
}

// memberVar is an environment variable. If it is set, TestMain runs a member, whose name is the
// value. Tests start their own program as such a member, so that they can stop it.
const memberVar = "SHARDCTL_TEST_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(commandVar) != "" {
		main()
	}
	if name := os.Getenv(judgedVar); name != "" {
		if err := beJudged(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(memberVar) == "" {
		if err := flag.Set("test.parallel", "4"); err != nil { // most tests wait
			panic(err)
		}
		os.Exit(m.Run())
	}
	if err := beMember(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beMember runs a member until its stdin ends.
func beMember() error {
	url := os.Getenv("NATS_URL")
	store, err := natsstore.Open(context.Background(), url, natsstore.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	n := shard.New(memberConfig(url, os.Getenv(memberVar), store))
	if err := hostAll(n, nil); err != nil {
		return err
	}
	if err := n.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println("up")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return n.Close()
}

// memberConfig is the config of the members in TestFindingOut. With it no member removes another by
// itself, so that the faults last, and a move is given up soon.
func memberConfig(url, name string, store *natsstore.Store) shard.Config {
	return shard.Config{
		Cluster: "shop", Name: name, Transport: transportOf(map[string]string{"NATS_URL": url}), Logger: quietLog, Store: store,
		HandoffTimeout: handoffTimeout, Membership: membership.Options{Downing: membership.DowningOptions{Strategy: membership.DowningManual}},
	}
}

func hostAll(n *shard.Node, probe *fixture.Probe) error {
	if err := fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{Watch: fixture.NewWatch()} }); err != nil {
		return err
	}
	return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} })
}

// startMember starts a member as a process of its own, which ends with the test.
func startMember(t *testing.T, url, name string) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), memberVar+"="+name, "NATS_URL="+url)
	cmd.Stderr = os.Stderr
	_, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	release, err := natsproc.StartChild(cmd, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		release()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "up\n", line)
	return cmd.Process
}

// stop suspends a process.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
}
