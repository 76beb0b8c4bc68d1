package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// commandVar is the environment variable that makes TestMain run shardctl. Tests start their own
// program as shardctl.
const commandVar = "SHARDCTL_TEST_COMMAND"

// runProcess runs shardctl as a process of its own.
func runProcess(t *testing.T, url string, args ...string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), commandVar+"=1", "NATS_URL="+url)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	release, err := natsproc.StartChild(cmd, nil)
	require.NoError(t, err)
	defer release()
	_ = cmd.Wait() // the code says it
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// printed returns the rights that shardctl permissions prints.
func printed(t *testing.T, args string) rights.Rights {
	t.Helper()
	o := runProcess(t, "", append([]string{"permissions", "-json"}, strings.Fields(args)...)...)
	require.Equal(t, exitOK, o.code, o.stderr)
	var r jsonRights
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &r))
	return rights.Rights{Publish: r.Publish, Subscribe: r.Subscribe}
}

// withoutOne returns, for each right, all rights except it.
func withoutOne(all rights.Rights) map[string]rights.Rights {
	users := map[string]rights.Rights{}
	without := func(list []string, right string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == right })
	}
	for _, right := range all.Publish {
		users["publish "+right] = rights.Rights{Publish: without(all.Publish, right), Subscribe: all.Subscribe}
	}
	for _, right := range all.Subscribe {
		users["subscribe "+right] = rights.Rights{Publish: all.Publish, Subscribe: without(all.Subscribe, right)}
	}
	return users
}

// TestProcessesUnderPrintedRights runs shardctl store and shardctl call as processes, with the
// rights that shardctl permissions prints for their roles. These suffice. If one that a command
// needs is missing, its error names that right.
func TestProcessesUnderPrintedRights(t *testing.T) {
	t.Parallel()
	store, caller := printed(t, "store -cluster bank -store shardgen"), printed(t, "gateway -cluster bank -name php")
	users, names := map[string]rights.Rights{"worker": printed(t, "worker -cluster bank -store shardgen"), "store": store, "php": caller}, map[string]string{}
	lacking := func(role string, all rights.Rights) {
		for i, right := range slices.Sorted(maps.Keys(withoutOne(all))) {
			names[role+right] = fmt.Sprint(role, i)
			users[names[role+right]] = withoutOne(all)[right]
		}
	}
	lacking("store", store)
	lacking("php", caller)
	server, err := hostile.Guard(t.TempDir(), users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	_ = fillGuarded(t, server)

	// The rights that each command needs, of those of its role.
	reads := []string{
		"publish $JS.API.DIRECT.GET.*", "publish $JS.API.STREAM.INFO.*", "publish $JS.API.STREAM.LIST", "publish $JS.API.STREAM.MSG.GET.*", "subscribe _INBOX.>",
	}
	const ofStore = "shardctl permissions ROLE -store shardgen prints the rights of a user; ROLE is worker for a member, with -publish for the subjects of shard.Publish, client for a follower of events, store for shardctl store"
	for _, tt := range []struct {
		role, args, prints string
		needs              []string
		remedy             string
	}{
		{"store", "store list", "Wallet", reads, ofStore},
		{"store", "store list Wallet", "ann", reads, ofStore},
		{"store", "store show Wallet ann", "ann", reads, ofStore},
		{"store", "store export Wallet", `"id":"ann"`, reads, ofStore},
		{"php", "call -cluster bank -name php Account Add ann {\"n\":1}", `"balance"`, []string{"publish sh.bank.g.php.>", "subscribe _INBOX.php.>"}, "shardctl permissions gateway -cluster bank -name php"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			runProcess(t, hostile.URL(server, tt.role), args...).check(t, tt.args, exitOK, tt.prints, "")
			for key, user := range names {
				right, ok := strings.CutPrefix(key, tt.role)
				if !ok {
					continue
				}
				began := time.Now()
				o := runProcess(t, hostile.URL(server, user), args...)
				t.Logf("without %s: code %d after %v: %s", right, o.code, time.Since(began), o.stderr)
				if !slices.Contains(tt.needs, right) {
					require.Equal(t, exitOK, o.code, "without %s: %s", right, o.stderr)
					continue
				}
				require.Equal(t, exitFailed, o.code, "without %s", right)
				_, subject, _ := strings.Cut(right, " ")
				require.Contains(t, o.stderr, strings.TrimRight(subject, ">*"))
				require.Contains(t, o.stderr, tt.remedy)
			}
		})
	}
}

// TestStoreWritesUnderPrintedRights uses the rights that shardctl permissions store prints.
// Commands of shardctl store that write ask the members first, and are refused while a member hosts
// the type. Without the right to ask, the error names that right and the command that prints the
// rights, with a name that can be granted.
func TestStoreWritesUnderPrintedRights(t *testing.T) {
	t.Parallel()
	store := printed(t, "store -cluster bank -store shardgen")
	users := map[string]rights.Rights{
		"worker": printed(t, "worker -cluster bank -store shardgen"), "store": store,
		"ann": printed(t, "store -cluster bank -store shardgen -name ann"),
	}
	lacking := map[string]string{}
	for i, right := range []string{"publish sh.bank.o.shardctl.get.>", "subscribe sh.bank.r.o.shardctl.>"} {
		user := fmt.Sprint("lacking", i)
		lacking[user], users[user] = right, withoutOne(store)[right]
	}
	server, err := hostile.Guard(t.TempDir(), users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	stop := fillGuarded(t, server)
	file := filepath.Join(t.TempDir(), "wallet.jsonl")
	run := func(user, args string, code int, stdout, stderr string) {
		t.Helper()
		args = strings.ReplaceAll(args, "FILE", file)
		runProcess(t, hostile.URL(server, user), strings.Fields(args)...).check(t, user+": "+args, code, stdout, stderr)
	}
	run("store", "store export Wallet -o FILE", exitOK, "", "")
	writes := []struct{ args, prints string }{
		{"store repair Wallet ann -drop", "Wallet/ann: state dropped"},
		{"store delete Wallet -force", "type Wallet is deleted"},
		{"store import -from FILE", "1 entities of 1 types"},
		{"store clear bank -remembered -leases", "0 leases of singletons"},
	}
	for _, w := range writes {
		hosted := "type Wallet is hosted by w1"
		if strings.Contains(w.args, "clear") {
			hosted = "cluster bank runs"
		}
		run("store", w.args, exitFailed, "", hosted)
		run("ann", w.args+" -name ann", exitFailed, "", hosted)
	}
	stop()
	for user, right := range lacking {
		_, subject, _ := strings.Cut(right, " ")
		for _, w := range writes {
			run(user, w.args, exitFailed, "", strings.TrimRight(subject, ">"))
			run(user, w.args, exitFailed, "", "shardctl permissions store -cluster bank -store shardgen -name shardctl prints all rights")
		}
	}
	for _, w := range writes {
		run("store", w.args, exitOK, w.prints, "")
	}
}

// fillGuarded has one member store an entity, and a second member serve the gateway. The returned
// function stops both.
func fillGuarded(t *testing.T, server *natsproc.Server) (stop func()) {
	t.Helper()
	url := hostile.URL(server, "worker")
	backend, err := natsstore.Open(t.Context(), url, natsstore.Config{Partitions: 1})
	require.NoError(t, err)
	t.Cleanup(backend.Close)
	member := func(config shard.Config) *shard.Node {
		config.Cluster, config.Transport, config.Logger = "bank", natstransport.New(url), quietLog
		n := shard.New(config)
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	n := member(shard.Config{Name: "w1", Store: backend})
	require.NoError(t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }))
	require.NoError(t, n.Start(t.Context()))
	_, err = bank.NewWalletClient(n).Ref("ann").Add(t.Context(), 5)
	require.NoError(t, err)
	g := member(shard.Config{Name: "w2", Store: backend, Gateway: true})
	require.NoError(t, fixture.HostAccount(g, func() *fixture.Account { return &fixture.Account{} }))
	require.NoError(t, g.Start(t.Context()))
	_, err = fixture.NewAccountClient(g).Ref("ann").Add(t.Context(), 5)
	require.NoError(t, err)
	return func() { require.NoError(t, errors.Join(n.Close(), g.Close())) }
}
