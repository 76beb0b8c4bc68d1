package shardtest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/store"
)

// A roster records which daemons run now.
type roster struct {
	mu     sync.Mutex
	at     map[int]string // the node of each daemon
	begun  map[int]int
	faults []string
	stays  time.Duration // how long a daemon goes on after its context has ended
}

func newRoster() *roster { return &roster{at: map[int]string{}, begun: map[int]int{}} }

func (r *roster) enter(i int, node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, runs := r.at[i]; runs {
		r.faults = append(r.faults, fmt.Sprintf("daemon %d runs at %s and %s", i, other, node))
	}
	r.at[i] = node
	r.begun[i]++
}

func (r *roster) leave(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, i)
}

// nodes returns the nodes that run daemons, and how many daemons run.
func (r *roster) nodes() (names []string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.at {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, len(r.at)
}

func (r *roster) host(n int) shardtest.Option {
	return shardtest.Host(func(node *shard.Node) error {
		return shard.Daemons(node, "count", n, func(ctx context.Context, i int) error {
			name := node.Cluster().Self.Name
			r.enter(i, name)
			defer r.leave(i)
			<-ctx.Done()
			time.Sleep(r.stays)
			return ctx.Err()
		})
	})
}

// TestDaemons: each daemon runs at one node, and all nodes have some. Daemons of a node that leaves
// or is killed run elsewhere. In an orderly move, a daemon ends before it begins elsewhere.
func TestDaemons(t *testing.T) {
	r := newRoster()
	r.stays = 5 * time.Second
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		runs := func(want ...string) {
			t.Helper()
			c.Until(fmt.Sprint("6 daemons run at ", want), func() bool {
				names, n := r.nodes()
				return n == 6 && slices.Equal(names, want)
			})
		}
		runs("n1", "n2", "n3")
		c.Shutdown("n2")
		runs("n1", "n3")
		c.Start("n2")
		runs("n1", "n2", "n3")
		require.Empty(t, r.faults)
	}, r.host(6), shardtest.Nodes(3))
}

// TestDaemonsInAStorm: during kills, pauses and cuts no daemon runs at two nodes. All run
// afterwards.
func TestDaemonsInAStorm(t *testing.T) {
	r := newRoster()
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Storm(2 * time.Minute)
		c.Until("8 daemons run", func() bool {
			_, n := r.nodes()
			return n == 8
		})
		require.Empty(t, r.faults)
		begun := 0
		for _, n := range r.begun {
			begun += n
		}
		require.Greater(t, begun, 16, "they have moved")
	}, r.host(8), shardtest.Latency(0, 5*time.Millisecond))
}

// TestDaemonRunsAgain: a daemon runs again, after a pause, when it has ended by an error, a panic
// or runtime.Goexit.
func TestDaemonRunsAgain(t *testing.T) {
	var mu sync.Mutex
	began := []time.Time{}
	host := shardtest.Host(func(node *shard.Node) error {
		return shard.Daemons(node, "fails", 1, func(ctx context.Context, _ int) error {
			mu.Lock()
			began = append(began, time.Now())
			n := len(began)
			mu.Unlock()
			switch n {
			case 1:
				return errors.New("broken")
			case 2:
				panic("broken")
			case 3:
				runtime.Goexit()
			}
			<-ctx.Done()
			return nil
		})
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Until("it has run four times", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(began) == 4
		})
		for i, want := range []time.Duration{time.Second, 2 * time.Second, time.Second} {
			require.InDelta(t, want.Seconds(), began[i+1].Sub(began[i]).Seconds(), 0.2, "before run %d", i+2)
		}
	}, host, shardtest.Nodes(1))
}

func TestDaemonsAreRefused(t *testing.T) {
	fn := func(context.Context, int) error { return nil }
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		node := shard.New(shard.Config{Cluster: "c", Name: "n", Transport: c.Broker().Transport()})
		require.ErrorContains(t, shard.Daemons(node, "x", 0, fn), "0 daemons")
		require.ErrorContains(t, shard.Daemons(node, "x", 1, nil), "is nil")
		require.ErrorContains(t, shard.Daemons(node, "a.b", 1, fn), "want only A-Z a-z 0-9 _ -")
		require.NoError(t, shard.Daemons(node, "x", 1, fn))
		require.ErrorContains(t, shard.Daemons(node, "x", 1, fn), "hosted already")
		require.ErrorContains(t, shard.Daemons(node, "y", 1, fn, shard.Handoff(shard.HandoffServing)), "move in order")
		require.ErrorContains(t, shard.Daemons(node, "z", 1, fn, shard.Remember(shard.RememberOptions{})), "shard.Remember")
		require.ErrorContains(t, node.Start(t.Context()), "0 daemons")
	}, shardtest.Nodes(1))
}

// TestDaemonsAgree: a node with another count of daemons, but as many shards, does not join.
// Otherwise it could get shards of daemons whose numbers it does not know.
func TestDaemonsAgree(t *testing.T) {
	count := 5
	host := shardtest.Host(func(n *shard.Node) error {
		return shard.Daemons(n, "x", count, func(ctx context.Context, _ int) error { <-ctx.Done(); return nil })
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		node := shard.New(shard.Config{Cluster: "shardtest", Name: "other", Transport: c.Broker().Transport(), Store: c.Store().Client()})
		require.NoError(t, shard.Daemons(node, "x", 6, func(context.Context, int) error { return nil }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(t, node.Start(ctx), `package is "shardgen/daemon/6" at other`)
		require.NoError(t, node.Close())
	}, host, shardtest.Nodes(1))
}

// A spreadProjection has the events that followers have handled, and the last number of each shard.
type spreadProjection struct {
	mu    sync.Mutex
	count map[string]int // by shard and number
	last  map[uint32]uint64
	parts map[int]bool
}

func (p *spreadProjection) handle(part int, e shard.Event[savings.Entry]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[fmt.Sprint(e.Shard, "/", e.Number)]++
	p.last[e.Shard] = max(p.last[e.Shard], e.Number)
	p.parts[part] = true
}

func (p *spreadProjection) state() (events, repeated int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.count {
		repeated += n - 1
	}
	return len(p.count), repeated
}

// TestFollowersSpread: the parts of a follower's name together get each event, even if the loops'
// nodes are killed or loops move. A name that is split into other parts goes on where its former
// parts were.
func TestFollowersSpread(t *testing.T) {
	p := &spreadProjection{count: map[string]int{}, last: map[uint32]uint64{}, parts: map[int]bool{}}
	host := shardtest.Host(func(n *shard.Node) error {
		accounts := savings.NewAccountClient(n)
		return errors.Join(
			savings.HostAccount(n, func() *savings.Account { return &savings.Account{} }),
			shard.Daemons(n, "balances", 2, func(ctx context.Context, i int) error {
				for e, err := range accounts.Events(ctx, "", shard.FollowerName("balances"), shard.OfPart(i, 2)) {
					if err != nil {
						return err
					}
					p.handle(i, e)
				}
				return nil
			}))
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		entered := 0
		enter := func(n int) {
			for range n {
				_, err := savings.NewAccountClient(c.Client()).Ref(fmt.Sprint(entered%40)).Enter(ctx, 1, "")
				require.NoError(t, err)
				entered++
			}
		}
		all := func() {
			t.Helper()
			c.Until("all events are handled", func() bool {
				events, _ := p.state()
				return events == entered
			})
		}
		enter(100)
		all()
		_, repeated := p.state()
		require.Zero(t, repeated)
		for i, name := range []string{"n1", "n2", "n3"} {
			enter(20)
			if i == 1 {
				c.Kill(name)
			} else {
				c.Shutdown(name)
			}
			enter(20)
			c.Start(name)
			all()
			c.Advance(2 * time.Minute) // until positions are stored, and ended daemons run again
		}
		require.Len(t, p.parts, 2)
		_, repeated = p.state()
		require.LessOrEqual(t, repeated, 40, "those of the last second before the kill")

		// run by hand, in other parts
		for part := range 4 {
			before, _ := p.state()
			accounts := savings.NewAccountClient(c.Client())
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			for e, err := range accounts.Events(ctx, "", shard.FollowerName("balances"), shard.OfPart(part, 4)) {
				if err == nil {
					t.Errorf("part %d repeats event %d of shard %d", part, e.Number, e.Shard)
				}
			}
			cancel()
			after, _ := p.state()
			require.Equal(t, before, after)
		}
		// then in the former parts, whose positions are old now
		enter(10)
		read := func(part, of int) (n int) {
			accounts := savings.NewAccountClient(c.Client())
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			for _, err := range accounts.Events(ctx, "", shard.FollowerName("again"), shard.OfPart(part, of)) {
				if err == nil {
					n++
				}
			}
			return n
		}
		require.Equal(t, entered, read(0, 2)+read(1, 2))
		enter(10)
		require.Equal(t, 10, read(0, 3)+read(1, 3)+read(2, 3))
		enter(10)
		require.Equal(t, 10, read(0, 2)+read(1, 2))
		require.NoError(t, durablehost.DropFollower(ctx, c.Store().Client(), "Account", "again"))

		s := c.Store().Client()
		records := func() (names []string) {
			all, err := durablehost.FollowersOf(ctx, s, "Account")
			require.NoError(t, err)
			return slices.Sorted(maps.Keys(all))
		}
		require.Equal(t, []string{"balances=0-of-2", "balances=0-of-4", "balances=1-of-2", "balances=1-of-4", "balances=2-of-4", "balances=3-of-4"}, records())
		require.NoError(t, durablehost.DropFollower(ctx, s, "Account", "balances=0-of-4"))
		require.NotContains(t, records(), "balances=0-of-4")
		for _, name := range c.Running() {
			c.Shutdown(name)
		}
		require.NoError(t, durablehost.DropFollower(ctx, s, "Account", "balances"))
		require.Empty(t, records())
		require.ErrorIs(t, durablehost.DropFollower(ctx, s, "Account", "balances"), store.ErrNotFound)
		for want, opts := range map[string][]shard.EventsOption{
			"shard.OfEntity with shard.OfPart": {shard.OfEntity("a"), shard.OfPart(0, 2)},
			"part 2 of 2":                      {shard.OfPart(2, 2)},
			"part 0 of 8":                      {shard.OfPart(0, 8)},
		} {
			for _, err := range savings.NewAccountClient(c.Client()).Events(ctx, "", opts...) {
				require.ErrorContains(t, err, want)
			}
		}
	}, host, shardtest.Nodes(3))
}

// TestDaemonsOfTheLastNode: the last node ends while a method still runs. Its daemons do not begin
// again meanwhile.
func TestDaemonsOfTheLastNode(t *testing.T) {
	r := newRoster()
	bells := shardtest.Host(func(n *shard.Node) error {
		return bank.HostBell(n, func() *bank.Bell {
			return &bank.Bell{Tried: func() int64 { time.Sleep(5 * time.Second); return 1 }}
		})
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Until("it runs", func() bool {
			_, n := r.nodes()
			return n == 1
		})
		go func() { _ = bank.NewBellClient(c.Client()).Ref("a").Snooze(t.Context(), 0) }()
		c.Advance(100 * time.Millisecond)
		c.Shutdown("n1")
		require.Equal(t, 1, r.begun[0])
	}, r.host(1), bells, shardtest.Nodes(1))
}
