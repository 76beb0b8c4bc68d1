package shardtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/shardtest"
)

// A series names what a measure.Series counts.
type series struct {
	kind, method   string
	tell           bool
	outcome, cause string
}

// tally counts calls as their callers see them.
type tally struct {
	mu          sync.Mutex
	made, turns map[series]uint64
}

func (l *tally) note(kind, method string, tell bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := series{kind, method, tell, shard.OutcomeOf(err).String(), ""}
	if err != nil {
		s.cause = shard.CauseOf(err)
	}
	l.made[s]++
	if !tell && shard.OutcomeOf(err) == shard.Executed {
		s.outcome = ""
		l.turns[s]++
	}
}

// lines returns counts as text, for a failure that shows only what differs.
func lines(counts map[series]uint64) (all []string) {
	for s, n := range counts {
		all = append(all, fmt.Sprintf("%+v: %d", s, n))
	}
	slices.Sort(all)
	return all
}

func counted(all []measure.Series) map[series]uint64 {
	sums := map[series]uint64{}
	for _, s := range all {
		sums[series{s.Kind, s.Method, s.Tell, s.Outcome, s.Cause}] += s.Count()
	}
	return sums
}

// TestCountsAreExact: each process counts each of its calls once, with the outcome that the caller
// saw, and the nodes together count each turn once. The calls are local and remote, of durable and
// volatile types, with and without interceptors. They wait, fail, panic or are refused, during
// moves.
func TestCountsAreExact(t *testing.T) {
	pass := shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error { return next(ctx) })
	for name, opts := range map[string][]shard.HostOption{"plain": nil, "intercepted": {pass}, narrow: {shard.MaxMailboxCalls(1)}} {
		t.Run(name, func(t *testing.T) {
			host := func(n *shard.Node) error {
				return errors.Join(
					fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }, opts...),
					bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, opts...),
				)
			}
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) { countExactly(t, c, name != narrow) }, shardtest.Nodes(3), shardtest.Host(host), shardtest.Latency(time.Millisecond, 3*time.Millisecond))
		})
	}
}

// narrow is the case of full mailboxes: calls are refused, and tells would be lost.
const narrow = "narrow"

func countExactly(t *testing.T, c *shardtest.Cluster, tells bool) {
	const callers, calls = 4, 150
	callersOf := map[string]shard.Caller{"client": c.Client()}
	for _, name := range c.Running() {
		callersOf[name] = c.Node(name)
	}
	tallies := map[string]*tally{}
	told := &tally{turns: map[series]uint64{}}
	var all sync.WaitGroup
	for name, caller := range callersOf {
		l := &tally{made: map[series]uint64{}, turns: map[series]uint64{}}
		tallies[name] = l
		accounts, wallets := fixture.NewAccountClient(caller), bank.NewWalletClient(caller)
		for i := range callers {
			all.Go(func() {
				ctx := t.Context()
				for n := range calls {
					id := fmt.Sprint((n + i) % 5)
					a, v := accounts.Ref(id), wallets.Ref(id)
					kind, method, tell := "Account", "", false
					var err error
					switch n % 11 {
					case 0, 1, 2:
						method = "Add"
						_, err = a.Add(ctx, 1)
					case 3:
						method, err = "Fail", a.Fail(ctx)
					case 4:
						method, err = "Panic", a.Panic(ctx, "broken")
					case 5:
						if !tells {
							continue
						}
						method, tell = "Add", true
						err = accounts.Tell(id).Add(ctx, 1)
					case 6:
						kind, method = "Wallet", "Add"
						_, err = v.Add(ctx, 1)
					case 7:
						kind, method = "Wallet", "Get"
						_, err = v.Get(ctx)
					case 8:
						kind, method, err = "Wallet", "Refuse", v.Refuse(ctx, 1)
					case 9:
						if !tells {
							continue
						}
						kind, method, tell = "Wallet", "Put", true
						err = wallets.Tell(id).Put(ctx, 1)
					case 10:
						over, cancel := context.WithCancel(ctx)
						cancel()
						method = "Get"
						_, err = accounts.Ref(id).Get(over)
					}
					l.note(kind, method, tell, err)
					if tell && err == nil {
						told.mu.Lock()
						told.turns[series{kind: kind, method: method, tell: true}]++
						told.mu.Unlock()
					}
				}
			})
		}
	}
	for i, kind := range []string{"Account", "Wallet"} {
		for id := range 5 {
			c.Advance(3 * time.Millisecond)
			c.Move(kind, fmt.Sprint(id), fmt.Sprint("n", 1+(id+i)%3))
		}
	}
	all.Wait()
	c.Settle()
	want, ran := told.turns, map[series]uint64{}
	for name, l := range tallies {
		got := callersOf[name].(interface{ Calls() measure.Calls }).Calls()
		require.Equal(t, lines(l.made), lines(counted(got.Made)), "calls of %s", name)
		for s, n := range l.turns {
			want[s] += n
		}
		for s, n := range counted(got.Turns) {
			ran[s] += n
		}
	}
	require.Equal(t, lines(want), lines(ran), "turns")
}
