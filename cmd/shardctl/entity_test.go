package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestStateIsForOperators: with the rights that shardctl permissions prints, a reader learns
// everything about an entity except its state. An operator sees the state, and the member logs
// that.
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

// TestBusyEntityIsShown: an entity that a caller calls again and again is shown between two of its calls.
func TestBusyEntityIsShown(t *testing.T) {
	t.Parallel()
	env, _, client := accounts(t)
	account := client.Ref("busy")
	ctx, cancel := context.WithCancel(t.Context())
	calls := make(chan error, 1)
	go func() {
		for {
			if _, err := account.Add(ctx, 1); err != nil {
				calls <- err
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		n, err := account.Get(t.Context())
		return err == nil && n > 0
	}, time.Minute, 20*time.Millisecond)
	for range 50 {
		shardctl(t, env, "entity Account busy -state").check(t, "entity", exitOK, `"Balance":`, "")
	}
	cancel()
	require.ErrorIs(t, <-calls, context.Canceled)
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
	o := shardctl(t, env, "entity Account stuck -state")
	o.check(t, "entity", exitOK, "called by member n1; calls that wait for it: 2\nno state: a turn is under way", "")
	o.check(t, "entity", exitOK, "it has run Hold for ", "")
	shardctl(t, env, "state Account stuck").check(t, "state", exitOK, "a turn is under way", "")
	close(probe.Release)
	for range 3 {
		require.NoError(t, <-ended)
	}
}

// TestLastErrors: entity prints the last failed calls of an entity, without arguments and texts of errors,
// and none of an entity that had none.
func TestLastErrors(t *testing.T) {
	t.Parallel()
	env, nodes, client := accounts(t)
	_, err := client.Ref("fine").Add(t.Context(), 1)
	require.NoError(t, err)
	shardctl(t, env, "entity Account fine -json").check(t, "an entity without errors", exitOK, `"errors": []`, "")
	require.Error(t, client.Ref("ann").Fail(t.Context()))
	require.Error(t, client.Ref("ann").Panic(t.Context(), "hidden"))
	for _, n := range nodes { // one of them is its home: a local call
		require.Error(t, fixture.NewAccountClient(n).Ref("ann").Fail(t.Context()))
	}
	var e jsonEntity
	o := shardctl(t, env, "entity Account ann -json")
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &e), o.stderr)
	require.Len(t, e.Errors, 4)
	got := map[string]string{}
	for i, f := range e.Errors {
		got[f.Method] = f.Outcome
		require.Positive(t, f.Ago)
		if i > 0 {
			require.GreaterOrEqual(t, f.Ago, e.Errors[i-1].Ago, "the latest first")
		}
	}
	require.Equal(t, map[string]string{
		"Fail": "executed: it returned an error", "Panic": "executed: it panicked",
	}, got)
	text, err := json.Marshal(e.Errors)
	require.NoError(t, err)
	require.NotContains(t, string(text), "hidden")
	o = shardctl(t, env, "entity Account ann")
	require.Regexp(t, `(?m)^Panic failed \d[^ ]* ago; executed: it panicked$`, o.stdout)
	require.Regexp(t, `(?m)^Fail failed \d[^ ]* ago; executed: it returned an error$`, o.stdout)
}

// A safe has a state with a secret.
type safe struct {
	Total int64  `shard:"state"`
	PIN   string `shard:"state,secret"`
}

// safes is the durable type of safes, as generated code has it; its state is JSON in a field. While broken is
// true, states cannot be read.
func safes(broken *atomic.Bool) codegen.Host {
	return codegen.Host{
		Kind: codegen.Kind{
			Name: "Safe", Package: "example.com/safe", Shards: 64, HashName: "xxh64", Methods: []string{"Close"}, Stateful: true, Durable: true,
		},
		New: func() any { return &safe{} },
		Dispatch: map[string]codegen.Method{"Close": func(_ context.Context, entity any, _, out []byte) ([]byte, error) {
			*entity.(*safe) = safe{7, "4321"}
			return out, nil
		}},
		AppendState: func(b []byte, entity any) ([]byte, error) {
			content, err := json.Marshal(entity)
			return codegen.AppendBytes(b, 1, content), err
		},
		DecodeState: func(entity any, b []byte) (bool, error) {
			d := codegen.NewDecoder(b)
			var content []byte
			for d.Next() {
				codegen.ReadBytes(&d, &content)
			}
			if broken.Load() {
				return false, errors.New("no fives")
			}
			return false, json.Unmarshal(content, entity)
		},
		StateFields: func(num int) (bool, codegen.Fields) { return num == 1, nil },
	}
}

// TestDurablePassivated: the state of a durable entity that nobody has called since its member started comes
// from the store, for operators, and without secrets. Readers learn its size.
func TestDurablePassivated(t *testing.T) {
	t.Parallel()
	server, err := hostile.Guard(t.TempDir(), map[string]rights.Rights{
		"worker": rights.Worker("shop", "shardgen"), "ann": rights.Operator("shop", "ann"), "bob": rights.Reader("shop", "bob"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	broken := new(atomic.Bool)
	start := func(id string) *shard.Node {
		url := hostile.URL(server, "worker")
		store, err := natsstore.Open(t.Context(), url, natsstore.Config{})
		require.NoError(t, err)
		t.Cleanup(store.Close)
		n := shard.New(shard.Config{Cluster: "shop", Name: "n1", Transport: transportOf(map[string]string{"NATS_URL": url}), Logger: quietLog, Store: store})
		t.Cleanup(func() { _ = n.Close() })
		require.NoError(t, n.Host(safes(broken)))
		require.NoError(t, n.Start(t.Context()))
		ref := codegen.NewRef(n.ShardInvoker(safes(broken).Kind), id, nil, shard.Timeout(time.Minute))
		_, err = ref.Begin(t.Context(), "Close")
		require.NoError(t, ref.Run(t.Context(), "Close", nil, err)) // the type's shards have homes
		return n
	}
	require.NoError(t, start("s1").Shutdown(t.Context()))
	node := start("another")

	env := func(user string) map[string]string {
		return map[string]string{"NATS_URL": hostile.URL(server, user), "SHARD_CLUSTER": "shop", "SHARD_OPERATOR": user}
	}
	require.Eventually(t, func() bool { return shardctl(t, env("bob"), "entity Safe s1").code == exitOK }, time.Minute, 50*time.Millisecond)
	o := shardctl(t, env("bob"), "entity Safe s1")
	require.Regexp(t, `it is passivated, in the store\nits state has [1-9]\d* bytes`, o.stdout)
	o = shardctl(t, env("bob"), "entity Safe s1 -state")
	o.check(t, "a reader who asks for the state", exitOK, "shardctl permissions operator -cluster shop -name bob", "")
	require.NotContains(t, o.stdout, "Total")
	o = shardctl(t, env("ann"), "entity Safe s1 -state")
	o.check(t, "an operator", exitOK, `state: {"Total":7,"PIN":"(secret)"}`, "")
	require.NotContains(t, o.stdout, "4321")
	o.check(t, "it is still passivated", exitOK, "it is passivated, in the store\n", "")
	shardctl(t, env("bob"), "events -grep told").check(t, "the look is logged", exitOK, "told to show a state by=ann kind=Safe entity=s1", "")
	shardctl(t, env("bob"), "entity Safe nobody").check(t, "an entity without state", exitOK, "no state: it is passivated and has none", "")
	shardctl(t, env("ann"), "state Safe s1 -drop").check(t, "a state in the store is not set here", exitFailed, "", "shardctl store repair replaces or drops")

	broken.Store(true)
	ref := codegen.NewRef(node.ShardInvoker(safes(broken).Kind), "s1", nil, shard.Timeout(time.Minute))
	err = ref.Run(t.Context(), "Close", nil, nil)
	require.ErrorIs(t, err, shard.ErrActivation)
	require.ErrorContains(t, err, "no fives (see it with shardctl state Safe s1; while no member hosts Safe, shardctl store repair Safe s1 -from EXPORT replaces it, and -drop drops it)")
	shardctl(t, env("bob"), "state Safe").check(t, "the list", exitOK, "Safe/s1 at n1: no fives", "")
	shardctl(t, env("ann"), "state Safe s1").check(t, "the encoded bytes", exitOK, `{"Tot`, "")
	shardctl(t, env("bob"), "entity Safe s1").check(t, "entity", exitOK, "it is passivated, in the store\nits state cannot be read: no fives", "")
	broken.Store(false)
	shardctl(t, env("bob"), "state Safe").check(t, "the list", exitOK, "no call has found", "")
}
