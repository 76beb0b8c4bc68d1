package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// memberVar has TestMain be the member of that name: tests start this very program, to stop it.
const memberVar = "SHARDCTL_TEST_MEMBER"

func TestMain(m *testing.M) {
	if os.Getenv(commandVar) != "" {
		main()
	}
	if os.Getenv(memberVar) == "" {
		os.Exit(m.Run())
	}
	if err := beMember(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// beMember is a member until its stdin ends.
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

// memberConfig is of the members of the cluster of TestFindingOut: it removes none by itself, so that
// the faults last, and gives a move up soon.
func memberConfig(url, name string, store *natsstore.Store) shard.Config {
	return shard.Config{
		Cluster: "shop", Name: name, Transport: transportOf(map[string]string{"NATS_URL": url}), Logger: quietLog, Store: store,
		HandoffTimeout: handoffTimeout, Membership: shard.MembershipOptions{Downing: shard.DowningOptions{Strategy: shard.DowningByHand}},
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

// stop has a process stand still.
func stop(t *testing.T, p *os.Process) {
	t.Helper()
	require.NoError(t, p.Signal(syscall.SIGSTOP))
}
