package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestStateIsForOperators: with the rights that shardctl permissions prints, a reader learns all of an
// entity but its state, in any form. An operator sees it, and its member logs the look.
func TestStateIsForOperators(t *testing.T) {
	t.Parallel()
	env, node := guarded(t, shard.Config{})
	_, err := fixture.NewAccountClient(node).Ref("ann").Add(t.Context(), 4321)
	require.NoError(t, err)

	shardctl(t, env("bob"), "entity Account ann").check(t, "a reader", exitOK, "its state has ", "")
	o := shardctl(t, env("bob"), "entity Account ann -state")
	o.check(t, "a reader who asks for the state", exitOK, `no state: `, "")
	require.Contains(t, o.stdout, "shardctl permissions operator -cluster shop -name bob")
	require.NotContains(t, o.stdout, "4321")
	for _, command := range []string{"state Account ann", "state Account ann -json", "state Account ann -o " + t.TempDir() + "/file"} {
		o := shardctl(t, env("bob"), command)
		o.check(t, command, exitFailed, "", "shardctl permissions operator -cluster shop -name bob")
		require.Empty(t, o.stdout)
	}
	shardctl(t, env("bob"), "state Account").check(t, "a list without state", exitOK, "no call has found", "")
	require.NotContains(t, shardctl(t, env("bob"), "events -grep told").stdout, "show a state")

	shardctl(t, env("ann"), "entity Account ann -state").check(t, "an operator", exitOK, `"Balance":4321`, "")
	shardctl(t, env("ann"), "state Account ann").check(t, "an operator", exitOK, "active", "")
	shardctl(t, env("bob"), "events -grep told").check(t, "the looks are logged", exitOK, "told to show a state by=ann kind=Account entity=ann", "")
}

// TestEntityThatRuns: of an entity with a turn under way, entity prints the turn, since when it runs, its
// caller, and the calls that wait for it.
func TestEntityThatRuns(t *testing.T) {
	t.Parallel()
	env, nodes, _ := accounts(t)
	probe := &fixture.Probe{Entered: make(chan string, 1), Release: make(chan struct{})}
	n := shard.New(shard.Config{Cluster: "shop", Name: "n3", Transport: transportOf(env), Logger: quietLog})
	t.Cleanup(func() { _ = n.Close() })
	require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} }))
	require.NoError(t, n.Start(t.Context()))
	account := fixture.NewAccountClient(nodes[0]).Ref("stuck", shard.Timeout(time.Minute))
	_, err := account.Get(t.Context()) // places the shards
	require.NoError(t, err)
	shardctl(t, env, "pin Account stuck n3").check(t, "pin", exitOK, "is to live at n3", "")
	require.Eventually(t, func() bool {
		at, err := nodes[0].Locate(t.Context(), "Account", "stuck")
		return err == nil && at.Node == "n3"
	}, time.Minute, 20*time.Millisecond)
	ended := make(chan error, 3)
	go func() { ended <- account.Hold(t.Context()) }()
	<-probe.Entered
	for range 2 {
		go func() {
			_, err := account.Add(t.Context(), 1)
			ended <- err
		}()
	}
	var e jsonEntity
	require.Eventually(t, func() bool {
		o := shardctl(t, env, "entity Account stuck -json")
		return json.Unmarshal([]byte(o.stdout), &e) == nil && e.Mailbox == 2 && e.Turn.Seconds > 0
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, "Hold", e.Turn.Method)
	require.Equal(t, "member n1", e.Turn.From)
	require.True(t, e.Turn.Earlier, "it began before anybody looked")
	o := shardctl(t, env, "entity Account stuck -state")
	o.check(t, "entity", exitOK, "called by member n1; calls that wait for it: 2\nno state: a turn is under way", "")
	o.check(t, "entity", exitOK, "it runs Hold for more than ", "")
	shardctl(t, env, "state Account stuck").check(t, "state", exitOK, "a turn is under way", "")
	close(probe.Release)
	for range 3 {
		require.NoError(t, <-ended)
	}
}
