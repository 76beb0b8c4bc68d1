package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/shop"
	shard "github.com/shardgen/shardgen/runtime"
)

// witness keeps a line for each event that interceptors saw.
type witness struct {
	mu    sync.Mutex
	lines []string
}

func (j *witness) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// take returns the lines so far and forgets them.
func (j *witness) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// around returns an interceptor that notes each call and its end.
func (j *witness) around(name string) shard.Interceptor {
	return func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		j.add("%s> %s", name, shop.Describe(call))
		err := next(ctx)
		j.add("%s< %v", name, err)
		return err
	}
}

// guarded is an interceptor that refuses calls without a tenant, with a declared error.
func guarded(_ context.Context, call shard.Info, next func(context.Context) error) error {
	return fmt.Errorf("%s/%s: %w", call.Kind, call.ID, shop.ErrUnwanted)
}

// TestHostInterceptors: interceptors are called around each turn, for local and remote calls, in
// order, and see its end.
func TestHostInterceptors(t *testing.T) {
	t.Parallel()
	var j witness
	g := newBuyers(t, nil, []shard.HostOption{shard.Intercept(j.around("1")), shard.Intercept(j.around("2"))}, "a", "b")
	conn := g.dial("web")
	for _, home := range []string{"a", "b"} {
		id, seller := g.at("Buyer", home), g.at("Seller", home)
		for name, caller := range map[string]shard.Caller{"member a": g.nodes["a"], "member b": g.nodes["b"], "client web": conn} {
			j.take()
			refs, sellers := shop.NewBuyerClient(caller), shop.NewSellerClient(caller)
			calls := map[string]func(ctx context.Context) (string, error){
				"Buyer/" + id + ".Who":       refs.Ref(id).Who,
				"Seller/" + seller + ".Who":  sellers.Ref(seller).Who,
				"Seller/" + seller + ".Look": sellers.Ref(seller).Look,
			}
			for method, call := range calls {
				want := name + ": " + method + " tenant=acme"
				got, err := call(header(t, "tenant", "acme"))
				require.NoError(t, err)
				require.Equal(t, want, got)
				require.Equal(t, []string{"1> " + want, "2> " + want, "2< <nil>", "1< <nil>"}, j.take())
			}
			err := refs.Ref(id).Fail(testContext(t))
			require.ErrorIs(t, err, shop.ErrUnwanted)
			require.Equal(t, []string{"2< buyer: unwanted", "1< buyer: unwanted"}, j.take()[2:])
			err = refs.Ref(id).Panic(testContext(t))
			require.ErrorIs(t, err, shard.ErrPanic)
			require.Contains(t, j.take()[3], "panic: buyer")

			require.NoError(t, refs.Tell(id).Note(testContext(t)))
			g.await(name + ": Buyer/" + id + ".Note told")
			require.Eventually(t, func() bool {
				j.mu.Lock()
				defer j.mu.Unlock()
				return len(j.lines) == 4
			}, testPatience, testTick, "the interceptors of a tell return behind its method")
			require.Equal(t, "1> "+name+": Buyer/"+id+".Note told", j.take()[0])
		}
	}
}

// TestHostInterceptorRefuses: if an interceptor of the host refuses a call, nothing runs, not even
// the activation. A local or remote caller gets the outcome and a declared error.
func TestHostInterceptorRefuses(t *testing.T) {
	t.Parallel()
	g := newBuyers(t, nil, []shard.HostOption{shard.Intercept(guarded)}, "a", "b")
	conn := g.dial("web")
	for _, home := range []string{"a", "b"} {
		id, seller := g.at("Buyer", home), g.at("Seller", home)
		for _, caller := range []shard.Caller{g.nodes["a"], g.nodes["b"], conn} {
			_, near := shop.NewBuyerClient(caller).Ref(id).Who(testContext(t))
			_, committed := shop.NewSellerClient(caller).Ref(seller).Who(testContext(t))
			_, read := shop.NewSellerClient(caller).Ref(seller).Look(testContext(t))
			for _, err := range []error{near, committed, read} {
				require.ErrorIs(t, err, shard.ErrRefused)
				require.ErrorIs(t, err, shop.ErrUnwanted)
				require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
				require.ErrorContains(t, err, "refused by an interceptor: ")
			}
			before := g.nodes[home].Counters()["refused"]
			require.NoError(t, shop.NewBuyerClient(caller).Tell(id).Note(testContext(t)))
			require.Eventually(t, func() bool { return g.nodes[home].Counters()["refused"] == before+1 }, testPatience, testTick)
		}
		for _, state := range g.nodes[home].LocalShards("") {
			require.Zero(t, state.Active, "an entity was activated")
		}
	}
	g.await()
}

type spanKey struct{}

// TestInterceptorsGiveContext: context values set by interceptors reach the method and the
// interceptors of its nested calls. A header set by the caller's interceptor reaches the method.
func TestInterceptorsGiveContext(t *testing.T) {
	var j witness
	give := func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		return next(context.WithValue(ctx, spanKey{}, call.Header("trace")))
	}
	pass := func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		trace, _ := ctx.Value(spanKey{}).(string)
		if trace == "" {
			trace = "root"
		}
		ctx, err := shard.WithHeader(ctx, "trace", trace+"/"+call.Method)
		if err != nil {
			return err
		}
		return next(ctx)
	}
	g := newBuyers(t, func(c *shard.Config) { c.Interceptors = []shard.Interceptor{pass, j.around("out")} },
		[]shard.HostOption{shard.Intercept(give)}, "a", "b")
	conn := g.dial("web")
	for _, first := range []string{"a", "b"} {
		for _, second := range []string{"a", "b"} {
			id, to := g.at("Buyer", first), "second-"+g.at("Buyer", second)
			for name, caller := range map[string]shard.Caller{"member a": g.nodes["a"], "client web": conn} {
				j.take()
				got, err := shop.NewBuyerClient(caller).Ref(id).Pass(testContext(t), to, "", "")
				require.NoError(t, err)
				require.Equal(t, "member "+first+" for Buyer/"+id+": Buyer/"+to+".Who trace=root/Pass/Who", got)
				require.Equal(t, []string{
					"out> " + name + ": Buyer/" + id + ".Pass trace=root/Pass",
					"out> member " + first + " for Buyer/" + id + ": Buyer/" + to + ".Who trace=root/Pass/Who",
					"out< <nil>", "out< <nil>",
				}, j.take())
				require.NoError(t, shop.NewBuyerClient(caller).Ref(id).TellSeller(testContext(t), "k", "", ""))
				g.await("member " + first + ": Seller/k.Note told trace=root/TellSeller/Note")
			}
		}
	}
}

// TestCallerInterceptorRefuses: if an interceptor of the caller refuses a call, nothing is sent.
func TestCallerInterceptorRefuses(t *testing.T) {
	var refusing sync.Map
	cause := errors.New("not now")
	g := newBuyers(t, func(c *shard.Config) {
		c.Interceptors = []shard.Interceptor{func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
			switch how, _ := refusing.Load(call.ID); how {
			case "error":
				return cause
			case "nothing":
				return nil
			case "twice":
				_ = next(ctx)
				return next(ctx)
			case "other result":
				_ = next(ctx)
				return cause
			}
			return next(ctx)
		}}
	}, nil, "a")
	for _, how := range []string{"error", "nothing", "twice", "other result"} {
		refusing.Store(how, how)
	}
	for _, caller := range []shard.Caller{g.nodes["a"], g.dial("web")} {
		sellers := shop.NewSellerClient(caller)
		for how, want := range map[string]string{"error": "not now", "nothing": "returned nil without calling next"} {
			_, err := sellers.Ref(how).Who(testContext(t))
			require.ErrorIs(t, err, shard.ErrRefused)
			require.ErrorContains(t, err, want)
			require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
			require.Equal(t, how == "error", errors.Is(err, cause))
			err = sellers.Tell(how).Note(testContext(t))
			require.ErrorIs(t, err, shard.ErrRefused)
		}
		for _, how := range []string{"twice", "other result"} {
			_, err := sellers.Ref(how).Who(testContext(t))
			require.NoError(t, err, "what it returns behind next has no effect")
		}
	}
	refusing.Clear()
	for how, want := range map[string]int64{"error": 0, "nothing": 0, "twice": 2, "other result": 2} {
		got, err := shop.NewSellerClient(g.nodes["a"]).Ref(how).Count(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, got, how)
	}
	g.await()
}

// TestHostInterceptorFaults: if an interceptor misbehaves, the call fails, and no other turn is
// harmed.
func TestHostInterceptorFaults(t *testing.T) {
	g := newBuyers(t, nil, []shard.HostOption{shard.Intercept(func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		switch call.ID {
		case "nothing":
			return nil
		case "panics":
			panic("oh")
		case "foreign":
			return next(context.Background())
		case "twice":
			return errors.Join(next(ctx), next(ctx))
		case "late panic":
			_ = next(ctx)
			panic("oh")
		case "asks":
			_, err := shard.Epoch(ctx)
			if !errors.Is(err, shard.ErrNoEpoch) {
				return fmt.Errorf("epoch: %v", err)
			}
			if i, ok := shard.CallInfo(ctx); !ok || i.ID != call.ID {
				return errors.New("no info")
			}
		}
		return next(ctx)
	})}, "a")
	for _, caller := range []shard.Caller{g.nodes["a"], g.dial("web")} {
		for id, want := range map[string]string{
			"nothing": "returned nil without calling next", "panics": "panic in an interceptor: oh", "foreign": "not derived",
		} {
			_, volatile := shop.NewBuyerClient(caller).Ref(id).Who(testContext(t))
			_, durable := shop.NewSellerClient(caller).Ref(id).Who(testContext(t))
			for _, err := range []error{volatile, durable} {
				require.ErrorIs(t, err, shard.ErrRefused)
				require.ErrorContains(t, err, want)
				require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
			}
		}
		for _, id := range []string{"twice", "late panic", "asks"} {
			_, err := shop.NewBuyerClient(caller).Ref(id).Who(testContext(t))
			require.NoError(t, err)
			_, err = shop.NewSellerClient(caller).Ref(id).Who(testContext(t))
			require.NoError(t, err)
		}
	}
	n, err := shop.NewSellerClient(g.nodes["a"]).Ref("twice").Count(testContext(t))
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "once for each caller")
}
