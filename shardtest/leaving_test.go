package shardtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

const (
	// leaveTimeout is the Config.Membership.LeaveTimeout of nodes that leave while a method runs.
	leaveTimeout = 5 * time.Second
	// deafFor is how long a method that ignores its context goes on.
	deafFor = 3 * time.Minute
)

// A slowTurn intercepts each turn of one entity, and delays the next turn if next was called.
// Unlike a Witness it counts a turn until the turn returns, even if its context has ended.
type slowTurn struct {
	mu      sync.Mutex
	hold    func(ctx context.Context) // delays the next turn; nil means no delay
	running string                    // the node of the running turn
	overlap string                    // describes two turns that ran at once
	nodes   []string                  // nodes of the turns, in order
}

// watch returns the option by which s intercepts the type's turns at a node.
func (s *slowTurn) watch(node string) shard.HostOption {
	return shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
		s.mu.Lock()
		if s.running != "" {
			s.overlap = fmt.Sprintf("turns at %s and %s run at once", s.running, node)
		}
		hold := s.hold
		s.hold, s.running = nil, node
		s.nodes = append(s.nodes, node)
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.running = ""
		}()
		if hold != nil {
			hold(ctx)
		}
		return next(ctx)
	})
}

// next makes the next turn call f before its method.
func (s *slowTurn) next(f func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = f
}

// last returns the node of the last turn.
func (s *slowTurn) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[len(s.nodes)-1]
}

// together returns two turns that ran at once, or "".
func (s *slowTurn) together() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlap
}

// An adder is an entity of some type that adds one to its state and returns the sum.
type adder func(ctx context.Context, from shard.Caller) (int64, error)

// leavers are the kinds of types, each with its host function and a call of one entity.
var leavers = map[string]struct {
	host    func(n *shard.Node, opts ...shard.HostOption) error
	add     adder
	durable bool
}{
	"volatile": {func(n *shard.Node, opts ...shard.HostOption) error {
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }, opts...)
	}, func(ctx context.Context, from shard.Caller) (int64, error) {
		return fixture.NewAccountClient(from).Ref("ann", shard.Timeout(time.Hour)).Add(ctx, 1)
	}, false},
	"durable": {func(n *shard.Node, opts ...shard.HostOption) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, opts...)
	}, func(ctx context.Context, from shard.Caller) (int64, error) {
		return bank.NewWalletClient(from).Ref("ann", shard.Timeout(time.Hour)).Add(ctx, 1)
	}, true},
	"singleton": {func(n *shard.Node, opts ...shard.HostOption) error {
		return fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{} }, opts...)
	}, func(ctx context.Context, from shard.Caller) (int64, error) {
		sum, _, err := fixture.NewChiefClient(from).Ref(shard.Timeout(time.Hour)).Next(ctx)
		return sum, err
	}, false},
	"durable singleton": {func(n *shard.Node, opts ...shard.HostOption) error {
		return bank.HostTreasury(n, func() *bank.Treasury { return &bank.Treasury{} }, opts...)
	}, func(ctx context.Context, from shard.Caller) (int64, error) {
		sum, _, err := bank.NewTreasuryClient(from).Ref(shard.Timeout(time.Hour)).Add(ctx, 1)
		return sum, err
	}, true},
}

// added is the outcome of an adder's call.
type added struct {
	sum int64
	err error
	at  time.Time
}

// A leaver is a cluster in which a node has begun a delayed turn.
type leaver struct {
	*shardtest.Cluster
	slowTurn
	add     adder
	durable bool
	home    string     // that node
	first   chan added // gets the outcome of the delayed call
	second  chan added // gets the outcome of a second call
}

// call makes a call and sends its outcome to end.
func (l *leaver) call(end chan<- added) {
	sum, err := l.add(context.Background(), l.Client())
	end <- added{sum, err, time.Now()}
}

// leave runs test for each kind of type in a cluster of the given number of nodes. hold delays the
// turn.
func leave(t *testing.T, nodes int, hold func(context.Context), test func(t *testing.T, l *leaver), tunes ...func(*shard.Config)) {
	for name, kind := range leavers {
		t.Run(name, func(t *testing.T) {
			l := &leaver{add: kind.add, durable: kind.durable}
			host := shardtest.Host(func(n *shard.Node) error { return kind.host(n, l.watch(n.Name())) })
			short := shardtest.Config(func(cfg *shard.Config) {
				cfg.Membership.LeaveTimeout = leaveTimeout
				for _, tune := range tunes {
					tune(cfg)
				}
			})
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				l.Cluster, l.first, l.second = c, make(chan added, 1), make(chan added, 1)
				_, err := l.add(t.Context(), c.Client())
				require.NoError(t, err)
				l.home = l.last()
				begun := make(chan bool)
				l.next(func(ctx context.Context) {
					close(begun)
					hold(ctx)
				})
				go l.call(l.first)
				<-begun
				test(t, l)
			}, shardtest.Nodes(nodes), host, short, shardtest.Latency(time.Millisecond, 5*time.Millisecond), shardtest.Seed(1))
		})
	}
}

// TestLeavingEndsContexts: when LeaveTimeout is over, the contexts of methods that still run end.
// If a method then returns, its call is answered, and its entity moves with its state. The method
// does not run beside the entity's next turn elsewhere.
func TestLeavingEndsContexts(t *testing.T) {
	leave(t, 3, func(ctx context.Context) { <-ctx.Done() }, func(t *testing.T, l *leaver) {
		begin := time.Now()
		time.AfterFunc(time.Second, func() { l.call(l.second) })
		l.Shutdown(l.home)
		require.Less(t, time.Since(begin), leaveTimeout+time.Second)
		first, second := <-l.first, <-l.second
		require.NoError(t, first.err)
		require.EqualValues(t, 2, first.sum)
		require.WithinDuration(t, begin.Add(leaveTimeout), first.at, 100*time.Millisecond)
		require.NoError(t, second.err)
		require.EqualValues(t, 3, second.sum, "the state has moved")
		require.Empty(t, l.together())
		require.NotEqual(t, l.home, l.last())
	})
}

// TestLeavingWithoutAMethod: a method goes on for minutes although its context has ended. The node
// leaves nevertheless. Within seconds the caller gets an unknown outcome, or its call to a durable
// entity is sent again. Without the answers of shardhost's Dismiss, the caller waits for its
// deadline.
func TestLeavingWithoutAMethod(t *testing.T) {
	var ended atomic.Pointer[time.Time]
	deaf := func(ctx context.Context) {
		context.AfterFunc(ctx, func() {
			now := time.Now()
			ended.Store(&now)
		})
		time.Sleep(deafFor)
	}
	leaving := make(turnsLogged, 10)
	leave(t, 3, deaf, func(t *testing.T, l *leaver) {
		begin, opened := time.Now(), make(chan time.Time, 1)
		l.next(func(context.Context) { opened <- time.Now() })
		time.AfterFunc(time.Second, func() { l.call(l.second) })
		l.Shutdown(l.home)
		require.Less(t, time.Since(begin), leaveTimeout+7*time.Second)
		first, second := <-l.first, <-l.second
		require.Less(t, first.at.Sub(begin), leaveTimeout+6*time.Second)
		require.NoError(t, second.err)
		if l.durable {
			require.NoError(t, first.err)
			require.ElementsMatch(t, []int64{2, 3}, []int64{first.sum, second.sum})
		} else {
			require.ErrorIs(t, first.err, shard.ErrLost)
			require.Equal(t, shard.Unknown, shard.OutcomeOf(first.err))
			require.EqualValues(t, 1, second.sum, "the state was at the node that left")
		}
		require.WithinDuration(t, begin.Add(leaveTimeout), *ended.Load(), 100*time.Millisecond)
		require.Greater(t, (<-opened).Sub(begin), leaveTimeout+2*time.Second, "the next home waits two seconds")
		require.NotEqual(t, l.home, l.last())
		for range 2 { // when the node gives its shards up, and when it ends
			require.Regexp(t, `^(Account/ann\.Add|Wallet/ann\.Add|Chief/singleton\.Next|Treasury/singleton\.Add)$`, <-leaving)
		}
		l.Advance(deafFor)
	}, func(cfg *shard.Config) { cfg.Logger = slog.New(leaving) })
}

// turnsLogged is a log handler that keeps the lines about turns for which a leaving node does not
// wait.
type turnsLogged chan string

func (turnsLogged) Enabled(context.Context, slog.Level) bool { return true }
func (c turnsLogged) WithAttrs([]slog.Attr) slog.Handler     { return c }
func (c turnsLogged) WithGroup(string) slog.Handler          { return c }

func (c turnsLogged) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "turns" {
			c <- a.Value.String()
		}
		return true
	})
	return nil
}

// TestLeavingEndsContextsThatNobodyHasAskedFor: a method first looks at its context some time after
// LeaveTimeout. The context has ended.
func TestLeavingEndsContextsThatNobodyHasAskedFor(t *testing.T) {
	for _, late := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond} {
		t.Run(late.String(), func(t *testing.T) {
			var saw atomic.Value
			leave(t, 3, func(ctx context.Context) {
				time.Sleep(leaveTimeout + late)
				saw.Store(fmt.Sprint(ctx.Err()))
			}, func(t *testing.T, l *leaver) {
				l.Shutdown(l.home)
				require.NoError(t, (<-l.first).err)
				require.Equal(t, context.Canceled.Error(), saw.Load())
			})
		})
	}
}

// TestLeavingAwaitsAnAnswer: a method that ignores its context ends when its node has left, but
// still waits until others may start the entity. The answer arrives. A call to a durable entity may
// be sent again instead.
func TestLeavingAwaitsAnAnswer(t *testing.T) {
	late := func(ctx context.Context) {
		<-ctx.Done()
		time.Sleep(3500 * time.Millisecond) // two seconds before the others may start the entity, and 1.5s
	}
	leave(t, 3, late, func(t *testing.T, l *leaver) {
		begin := time.Now()
		l.Shutdown(l.home)
		require.Less(t, time.Since(begin), leaveTimeout+5*time.Second)
		first := <-l.first
		require.NoError(t, first.err)
		require.EqualValues(t, 2, first.sum)
	})
}

// TestLeavingBehindAMove: a turn, which ends soon after its context, has made the shard give up a
// move. If the turn is durable and still waits for its log, its call is sent again. The next call
// gets a context that has not ended.
func TestLeavingBehindAMove(t *testing.T) {
	soon := func(ctx context.Context) {
		<-ctx.Done()
		time.Sleep(300 * time.Millisecond)
	}
	leave(t, 3, soon, func(t *testing.T, l *leaver) {
		state := make(chan error, 1)
		l.next(func(ctx context.Context) { state <- ctx.Err() })
		time.AfterFunc(time.Second, func() { l.call(l.second) })
		l.Shutdown(l.home)
		require.NoError(t, (<-l.first).err)
		require.NoError(t, (<-l.second).err)
		require.NoError(t, <-state)
		require.Empty(t, l.together())
	}, func(cfg *shard.Config) { cfg.HandoffTimeout = leaveTimeout })
}

// TestLeavingGivesLaterTurnsTime: a turn begins after LeaveTimeout. Its context ends early enough
// that its method has as much time as earlier ones before another member may run the next turn. A
// singleton runs the turn elsewhere, because its instance has stopped.
func TestLeavingGivesLaterTurnsTime(t *testing.T) {
	soon := func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(leaveTimeout + 2*time.Second):
		}
		time.Sleep(500 * time.Millisecond)
	}
	leave(t, 3, soon, func(t *testing.T, l *leaver) {
		third := make(chan added, 1)
		l.next(soon)
		time.AfterFunc(time.Second, func() { l.call(l.second) })
		time.AfterFunc(2*time.Second, func() { l.call(third) })
		l.Shutdown(l.home)
		var sums []int64
		for _, end := range []chan added{l.first, l.second, third} {
			one := <-end
			require.NoError(t, one.err)
			sums = append(sums, one.sum)
		}
		require.ElementsMatch(t, []int64{2, 3, 4}, sums, "the state has moved")
		require.Empty(t, l.together())
		require.NotEqual(t, l.home, l.last())
	}, func(cfg *shard.Config) { cfg.HandoffTimeout = leaveTimeout })
}

// TestCancellationFollowsACall: a call waited at a node that has left, and runs at the next home.
// Its caller gives up, and the method's context ends.
func TestCancellationFollowsACall(t *testing.T) {
	leave(t, 3, func(context.Context) { time.Sleep(time.Second) }, func(t *testing.T, l *leaver) {
		begun, heard := make(chan bool), make(chan time.Time, 1)
		l.next(func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
			heard <- time.Now()
		})
		ctx, cancel := context.WithCancel(context.Background())
		over := make(chan error, 1)
		go func() {
			_, err := l.add(ctx, l.Client())
			over <- err
		}()
		time.Sleep(100 * time.Millisecond)
		l.Shutdown(l.home)
		<-begun
		require.NotEqual(t, l.home, l.last())
		time.Sleep(time.Second)
		now := time.Now()
		cancel()
		require.ErrorIs(t, <-over, context.Canceled)
		require.Less(t, (<-heard).Sub(now), time.Second)
	})
}

// TestLastNodeLeaves: no other member takes the entity. Its method may go on until LeaveTimeout is
// over. If it ignores its context, the node ends without it.
func TestLastNodeLeaves(t *testing.T) {
	for name, hold := range map[string]func(context.Context){
		"heeds its context":   func(ctx context.Context) { <-ctx.Done() },
		"ignores its context": func(context.Context) { time.Sleep(deafFor) },
	} {
		t.Run(name, func(t *testing.T) {
			leave(t, 1, hold, func(t *testing.T, l *leaver) {
				begin := time.Now()
				l.Shutdown(l.home)
				took := time.Since(begin)
				require.GreaterOrEqual(t, took, leaveTimeout)
				require.Less(t, took, leaveTimeout+7*time.Second)
				l.Start(l.home)
				<-l.first
				l.Advance(deafFor)
			})
		})
	}
}

// TestLeavingWithoutAFarTurn is like TestLeavingWithoutAMethod, but the call began its turn without
// the shard's lock. The shard knows the call only because the lane discloses it.
func TestLeavingWithoutAFarTurn(t *testing.T) {
	probe := &fixture.Probe{}
	host := shardtest.Host(func(n *shard.Node) error {
		if probe.Entered == nil { // made in the test's bubble
			probe.Entered, probe.Left = make(chan string, 2), make(chan error)
		}
		return fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{Probe: probe} })
	})
	short := shardtest.Config(func(cfg *shard.Config) { cfg.Membership.LeaveTimeout = leaveTimeout })
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		account := fixture.NewAccountClient(c.Client()).Ref("ann", shard.Timeout(time.Hour))
		_, err := account.Add(t.Context(), 1)
		require.NoError(t, err)
		begin, held := time.Now(), make(chan error, 1)
		go func() { held <- account.Hold(context.Background()) }()
		<-probe.Entered
		c.Shutdown(c.Home("Account", "ann"))
		err, left := <-held, <-probe.Left
		require.ErrorIs(t, err, shard.ErrLost)
		require.Equal(t, shard.Unknown, shard.OutcomeOf(err))
		require.Less(t, time.Since(begin), leaveTimeout+7*time.Second)
		require.ErrorIs(t, left, context.Canceled)
	}, shardtest.Nodes(3), host, short, shardtest.Latency(time.Millisecond, 5*time.Millisecond), shardtest.Seed(1))
}
