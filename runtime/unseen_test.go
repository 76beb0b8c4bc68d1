package shard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// A looker shows the test the contexts of its methods. Look and Stale name their contexts. The
// description of Stale says that it does not, like generated code that is older than its source.
type looker struct{ look func(context.Context) }

func lookers(look func(context.Context)) codegen.Host {
	run := codegen.Run(func(l *looker, ctx context.Context) error {
		l.look(ctx)
		return nil
	})
	return codegen.Host{
		Kind: codegen.Kind{Name: "Looker", Package: "example.com/looker", Shards: 4, HashName: "xxh64", Methods: []string{"Look", "Stale"}},
		New:  func() any { return &looker{look} }, Dispatch: map[string]codegen.Method{"Look": run, "Stale": run},
		NoContext: map[string]bool{"Stale": true},
	}
}

// callLooker calls a method as generated code does.
func callLooker(ctx context.Context, r *codegen.Ref, method string) (err error) {
	begin := r.Begin
	if method == "Stale" {
		begin = r.BeginNoContext
	}
	turn, err := begin(ctx, method)
	if e, ok := turn.Entity.(*looker); ok {
		defer turn.End(method, &err)
		e.look(turn.Context)
		return nil
	}
	return r.Run(ctx, method, nil, err)
}

// startLookers starts a node with lookers, and returns ways to call an active looker: by calls and
// tells, from the same process and from another.
func startLookers(t *testing.T, c *cluster, look func(context.Context)) map[string]func(method string) error {
	t.Helper()
	n := c.add("a")
	require.NoError(t, n.Host(lookers(look)))
	require.NoError(t, n.Start(testContext(t)))
	kind := lookers(nil).Kind
	near, far := codegen.NewRef(n.ShardInvoker(kind), "l", nil), codegen.NewRef(c.dial("far").ShardInvoker(kind), "l", nil)
	require.NoError(t, callLooker(testContext(t), near, "Look"), "it activates")
	ways := map[string]func(method string) error{}
	for name, r := range map[string]*codegen.Ref{"near": near, "far": far} {
		require.NoError(t, callLooker(testContext(t), r, "Look"))
		ways[name] = func(method string) error { return callLooker(testContext(t), r, method) }
		ways[name+", told"] = func(method string) error {
			if err := r.Tell(testContext(t), method, nil); err != nil {
				return err
			}
			return callLooker(testContext(t), r, "Look") // behind the tell
		}
	}
	return ways
}

// TestContextOfOtherTurns: a context that a method has kept belongs to no turn after the method's
// own. That holds while later turns of its entity run, of methods that name their context and of
// methods that do not.
func TestContextOfOtherTurns(t *testing.T) {
	var kept []context.Context
	ways := startLookers(t, emptyCluster(t), func(ctx context.Context) {
		for _, old := range kept {
			_, ok := shard.CallInfo(old)
			require.False(t, ok)
			require.Error(t, shard.Passivate(old))
		}
		kept = append(kept, ctx)
	})
	for range 3 {
		for name, call := range ways {
			require.NoError(t, call("Look"), name)
			require.NoError(t, call("Stale"), name)
		}
	}
	require.GreaterOrEqual(t, len(kept), 3*4*2)
}

// TestContextThatIsNotNamed: if the generated code says that a method does not name its context,
// and the method uses it, the context has ended. Calls with it fail with the remedy.
func TestContextThatIsNotNamed(t *testing.T) {
	c := emptyCluster(t)
	var seen []context.Context
	ways := startLookers(t, c, func(ctx context.Context) { seen = append(seen, ctx) })
	for name, call := range ways {
		seen = nil
		require.NoError(t, call("Stale"), name)
		ctx := seen[0]
		require.ErrorIs(t, ctx.Err(), context.Canceled, name)
		require.ErrorContains(t, ctx.Err(), "the generated code of Looker is older than its methods", name)
		receive(t, ctx.Done(), "its end")
		_, ok := shard.CallInfo(ctx)
		require.False(t, ok, name)
		_, err := fixture.NewAccountClient(c.nodes["a"]).Ref("bob").Get(ctx)
		require.ErrorContains(t, err, "(run go generate)", name)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err), name)
	}
}

// TestCallsWithoutGarbage: a local call allocates nothing if its method does not name its context,
// with a kept reference and with a new reference for each call.
func TestCallsWithoutGarbage(t *testing.T) {
	c := newCluster(t, "a")
	accounts, ctx := fixture.NewAccountClient(c.nodes["a"]), testContext(t)
	ref := accounts.Ref("bob")
	for name, to := range map[string]func() fixture.AccountRef{
		"kept": func() fixture.AccountRef { return ref },
		"made": func() fixture.AccountRef { return accounts.Ref("bob") },
	} {
		call := func() {
			if _, err := to().Add(ctx, 1); err != nil {
				t.Error(err)
			}
		}
		call()
		call()
		least := 1.0
		for range 100 { // the node's own allocations count too
			if least = min(least, testing.AllocsPerRun(100, call)); least == 0 {
				break
			}
		}
		require.Zero(t, least, name)
	}
}

// TestUnseenTurnUnderWay: at the first look an operator finds a turn under way, even if its method
// does not name its context.
func TestUnseenTurnUnderWay(t *testing.T) {
	c := emptyCluster(t)
	entered, release := make(chan bool), make(chan bool)
	holds := false
	ways := startLookers(t, c, func(context.Context) {
		if holds {
			entered <- true
			<-release
		}
	})
	holds = true
	called := make(chan error, 1)
	go func() { called <- ways["far"]("Stale") }()
	receive(t, entered, "the turn")
	require.EventuallyWithT(t, func(t *assert.CollectT) { // the call is known once its turn has lost the lane
		assert.Equal(t, []string{"Stale of Looker/l from client far"}, c.nodes["a"].TurnsUnderWay())
	}, testPatience, testTick)
	holds = false
	close(release)
	require.NoError(t, receive(t, called, "the call"))
}
