package shard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// accountKind is the entity type's name in errors and on the wire.
const accountKind = "Account"

// eachWay runs f against one node by every way a call can take: on the caller's
// goroutine, on one of the node's, and over the broker.
func eachWay(t *testing.T, tune func(*shard.Config), f func(t *testing.T, c *cluster, accounts *fixture.AccountClient), opts ...shard.HostOption) {
	for _, way := range []struct {
		name string
		opts []shard.HostOption
		far  bool
	}{
		{name: "inline"},
		{name: "queued", opts: []shard.HostOption{shard.Inline(false)}},
		{name: "far", far: true},
	} {
		t.Run(way.name, func(t *testing.T) {
			c := emptyCluster(t)
			c.opts, c.tune = append(opts, way.opts...), tune
			var caller shard.Caller = c.start("a")
			if way.far {
				caller = c.dial("client")
			}
			accounts := fixture.NewAccountClient(caller)
			settle(t, accounts, "bob", "x", "y", "z")
			f(t, c, accounts)
		})
	}
}

// settle returns when the routes to the accounts are known. A first call waits for the route, and a
// second one until the first has stored it.
func settle(t *testing.T, accounts *fixture.AccountClient, ids ...string) {
	t.Helper()
	for range 2 {
		for _, id := range ids {
			_, err := accounts.Ref(id).Get(testContext(t))
			require.NoError(t, err)
		}
	}
}

// requireCall checks that err is a call that failed with that cause and outcome.
func requireCall(t *testing.T, err, cause error, outcome shard.Outcome) {
	t.Helper()
	var call *shard.CallError
	require.ErrorAs(t, err, &call)
	require.ErrorIs(t, err, cause)
	require.Equal(t, outcome, call.Outcome, "outcome of: %v", err)
	require.Equal(t, accountKind, call.Kind)
}

func TestErrorOfMethod(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, _ *cluster, accounts *fixture.AccountClient) {
		ref := accounts.Ref("bob")
		err := ref.Fail(testContext(t))
		var entity *shard.EntityError
		require.ErrorAs(t, err, &entity)
		require.Equal(t, shard.EntityError{Kind: accountKind, ID: "bob", Method: "Fail", Text: "fail bob: too poor"}, *entity)
		require.EqualError(t, err, "Account/bob.Fail: fail bob: too poor")
		require.NotErrorIs(t, err, fixture.ErrPoor, "the value does not travel, near or far")
		require.Equal(t, shard.Executed, shard.OutcomeOf(err))
		got, err := ref.Get(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 1, got, "what Fail did before it failed")
	})
}

func TestPanicOfMethod(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		ref := accounts.Ref("bob")
		_, err := ref.Add(testContext(t), 7)
		require.NoError(t, err)
		err = ref.Panic(testContext(t), "at the disco")
		require.ErrorIs(t, err, shard.ErrPanic)
		require.EqualError(t, err, "Account/bob.Panic: panic: at the disco")
		require.Equal(t, shard.Executed, shard.OutcomeOf(err))
		got, err := ref.Add(testContext(t), 1)
		require.NoError(t, err)
		require.EqualValues(t, 8, got, "the entity keeps its state")
		require.Equal(t, []string{"fresh"}, c.probe.Hooks("bob"))
	})
}

func TestGoexitOfMethod(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, _ *cluster, accounts *fixture.AccountClient) {
		ref := accounts.Ref("bob")
		for range 3 {
			err := errors.New("the caller's goroutine ended")
			var wg sync.WaitGroup
			wg.Go(func() { err = ref.Exit(testContext(t)) })
			wg.Wait()
			if t.Name() == "TestGoexitOfMethod/inline" {
				require.EqualError(t, err, "the caller's goroutine ended")
			} else {
				require.ErrorIs(t, err, shard.ErrPanic)
				require.EqualError(t, err, "Account/bob.Exit: panic: runtime.Goexit")
			}
			_, err = ref.Add(testContext(t), 1)
			require.NoError(t, err)
		}
		got, err := ref.Get(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 3, got)
	})
}

func TestCircularCall(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, _ *cluster, accounts *fixture.AccountClient) {
		for _, test := range []struct{ path, chain string }{
			{"x", "Account/x → Account/x"},
			{"y x", "Account/x → Account/y → Account/x"},
			{"y z y", "Account/x → Account/y → Account/z → Account/y"},
		} {
			_, err := accounts.Ref("x").Via(testContext(t), strings.Fields(test.path), 1)
			var entity *shard.EntityError // of x, whose method returned the error of its own call
			require.ErrorAs(t, err, &entity)
			require.ErrorContains(t, err, "circular call: "+test.chain+" (make one of these calls a Tell, or make it after the turn) (not executed)")
			require.Equal(t, shard.Executed, shard.OutcomeOf(err), "x itself ran")
		}
		for _, id := range []string{"x", "y", "z"} {
			got, err := accounts.Ref(id).Add(testContext(t), 1)
			require.NoError(t, err)
			require.EqualValues(t, 1, got, "%s goes on", id)
		}
	})
}

// TestNestedCalls runs many chains of calls through all nodes at once. If a waiting turn blocked
// its lane, the chains would block each other.
func TestNestedCalls(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Lanes = 1 }
	for _, n := range []string{"a", "b", "c"} {
		c.start(n)
	}
	callers := []shard.Caller{c.dial("client"), c.nodes["a"], c.nodes["b"]}
	const chains, length, rounds = 20, 8, 5
	errs := make(chan error, chains*len(callers))
	var wg sync.WaitGroup
	for i := range chains {
		for who, caller := range callers {
			var path []string
			for k := range length {
				path = append(path, fmt.Sprint("n", who, "-", i, "-", k))
			}
			first := fixture.NewAccountClient(caller).Ref(path[0])
			wg.Go(func() {
				for r := range rounds {
					if got, err := first.Via(testContext(t), path[1:], 1); err != nil || got != int64(r+1) {
						errs <- fmt.Errorf("chain %s: got %d, %v", path[0], got, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// TestChainsThroughOne runs chains of calls that meet at one account, which serves one call at a
// time.
func TestChainsThroughOne(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	accounts := fixture.NewAccountClient(c.dial("client"))
	const chains = 40
	errs := make([]error, chains)
	var wg sync.WaitGroup
	for i := range chains {
		wg.Go(func() {
			id := fmt.Sprint("before-", i)
			_, errs[i] = accounts.Ref(id).Via(testContext(t), []string{"middle", fmt.Sprint("after-", i)}, 1)
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

func TestErrorsOfArguments(t *testing.T) {
	t.Parallel()
	eachWay(t, nil, func(t *testing.T, _ *cluster, accounts *fixture.AccountClient) {
		err := accounts.Ref("").Fail(testContext(t))
		requireCall(t, err, shard.ErrBadID, shard.NotExecuted)
		err = accounts.Ref(string(make([]byte, 1025))).Fail(testContext(t))
		requireCall(t, err, shard.ErrBadID, shard.NotExecuted)
		over, cancel := context.WithCancel(context.Background())
		cancel()
		err = accounts.Ref("bob").Fail(over)
		requireCall(t, err, context.Canceled, shard.NotExecuted)
		requireCall(t, accounts.Tell("bob").Fail(over), context.Canceled, shard.NotExecuted)
	})
}

func TestTooLarge(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.dial("client"))
	_, err := accounts.Ref("bob").Echo(testContext(t), make([]byte, 2<<20))
	requireCall(t, err, shard.ErrTooLarge, shard.NotExecuted)
	near := fixture.NewAccountClient(c.nodes["a"])
	for range 3 {
		require.NoError(t, near.Ref("bob").Note(testContext(t), string(make([]byte, 512<<10))))
	}
	_, err = accounts.Ref("bob").Lines(testContext(t))
	requireCall(t, err, shard.ErrTooLarge, shard.Executed)
}

func TestOutcomeOf(t *testing.T) {
	notRun := &shard.CallError{Outcome: shard.NotExecuted, Err: shard.ErrOverloaded}
	for _, test := range []struct {
		name string
		err  error
		want shard.Outcome
	}{
		{"nil", nil, shard.Executed},
		{"foreign", errors.New("foreign"), shard.Unknown},
		{"deadline of nobody's", context.DeadlineExceeded, shard.Unknown},
		{"not executed", notRun, shard.NotExecuted},
		{"wrapped", fmt.Errorf("order: %w", notRun), shard.NotExecuted},
		{"unknown", &shard.CallError{Err: shard.ErrLost}, shard.Unknown},
		{"too large a result", &shard.CallError{Outcome: shard.Executed, Err: shard.ErrTooLarge}, shard.Executed},
		{"method's error", &shard.EntityError{Text: "no"}, shard.Executed},
		{"panic", &shard.EntityError{Text: "no", Panic: true}, shard.Executed},
	} {
		if got := shard.OutcomeOf(test.err); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestOneNameOfTwoPackages: the calls of a client fail if its type has the name of a hosted type of
// another package.
func TestOneNameOfTwoPackages(t *testing.T) {
	c := newCluster(t, "a")
	invoker := c.nodes["a"].ShardInvoker(codegen.Kind{Name: accountKind, Package: "example.com/other"})
	_, err := codegen.NewRef(invoker, "bob", nil).Begin(testContext(t), "Add")
	require.ErrorIs(t, err, shard.ErrMismatch)
	require.ErrorContains(t, err, "example.com/other (set name= in the directive of one of them)")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
}
