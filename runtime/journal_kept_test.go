package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// hostSavings hosts the types of package savings.
func hostSavings(n *shard.Node) error {
	if err := savings.HostAccount(n, func() *savings.Account { return &savings.Account{} }); err != nil {
		return err
	}
	return savings.HostRoll(n, func() *savings.Roll { return &savings.Roll{} })
}

// TestEventsGone: with keep=3 a journal keeps its last three events and deletes the others. A
// follower that has not read these gets an error; it does not skip them.
func TestEventsGone(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		roll := savings.NewRollClient(c.Node("n1"))
		note := string(make([]byte, 20<<10)) // a chunk of its own
		enter := func(n int) {
			for range n {
				_, err := roll.Ref("a").Enter(t.Context(), 1, note)
				require.NoError(t, err)
				c.Advance(time.Second) // this event gets a journal entry of its own
			}
		}
		read := func(from shard.Position, n int) (numbers []uint64, at shard.Position, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for e, err := range roll.Events(ctx, from) {
				if err != nil {
					return numbers, at, err
				}
				numbers, at = append(numbers, e.Number), e.Position
				if len(numbers) == n {
					break
				}
			}
			return numbers, at, nil
		}
		enter(2)
		numbers, at, err := read("", 2)
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 2}, numbers)
		enter(8)
		c.Until("the journal has the last three events alone", func() bool {
			numbers, _, err := read("", 1)
			return err == nil && numbers[0] == 8
		})
		numbers, _, err = read(at, 1)
		require.ErrorIs(t, err, shard.ErrEventsGone)
		require.ErrorContains(t, err, "events 3 to 7 of the journal were deleted")
		require.Empty(t, numbers)
		numbers, _, err = read("", 3)
		require.NoError(t, err)
		require.Equal(t, []uint64{8, 9, 10}, numbers)
	}, shardtest.Nodes(1), shardtest.Host(hostSavings))
}

// TestFollowedByAnother: of two loops that follow under one name, the one that began first ends.
func TestFollowedByAnother(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		accounts := savings.NewAccountClient(c.Node("n1"))
		for i := range 5 {
			_, err := accounts.Ref("a").Enter(t.Context(), 1, fmt.Sprint(i))
			require.NoError(t, err)
		}
		follow := func(each func(n int) bool) error {
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, err := range accounts.Events(ctx, "", shard.FollowerName("billing")) {
				if err != nil {
					return err
				}
				if n++; !each(n) {
					return nil
				}
			}
			return ctx.Err()
		}
		err := follow(func(n int) bool {
			if n == 1 { // a second loop begins, and reads more
				require.NoError(t, follow(func(n int) bool { return n < 5 }))
				c.Advance(2 * time.Second) // the first loop stores its place when it goes on
			}
			return true
		})
		require.ErrorIs(t, err, shard.ErrFollowed)
		require.ErrorContains(t, err, "billing")
		require.NoError(t, follow(func(int) bool { return false }), "the event at which the second one ended comes again")
	}, shardtest.Nodes(1), shardtest.Host(hostSavings))
}

// A named is a loop that follows under a name until its context ends.
type named struct {
	read  atomic.Int64
	ended atomic.Bool
	err   error // once it has ended
}

// followNamed begins a loop at a node, under the name billing.
func followNamed(ctx context.Context, n *shard.Node) *named {
	f := &named{}
	go func() {
		for _, err := range savings.NewAccountClient(n).Events(ctx, "", shard.FollowerName("billing")) {
			if f.err = err; err == nil {
				f.read.Add(1)
			}
		}
		f.ended.Store(true)
	}()
	return f
}

// takeOver begins a loop at n1, and later one at n2, whose process uses the store client own. The
// function fault decides what happens to that process's writes of the name's record; it gets the
// number of each write, from 1. takeOver returns both loops and the number of writes.
func takeOver(ctx context.Context, c *shardtest.Cluster, own *memorystore.Client, fault func(write int) memorystore.Fault) (former, next *named, writes *atomic.Int64) {
	former, writes = followNamed(ctx, c.Node("n1")), new(atomic.Int64)
	c.Advance(5 * time.Second)
	own.Fault(func(op memorystore.Op) (f memorystore.Fault) {
		if op.Key == "followers/Account/billing" && op.Write {
			return fault(int(writes.Add(1)))
		}
		return f
	})
	return former, followNamed(ctx, c.Node("n2")), writes
}

// TestFollowerNameIsTakenOver: a new loop takes the name over from the former loop. The former loop
// ends soon, whether there are events or not, and however far each has read.
func TestFollowerNameIsTakenOver(t *testing.T) {
	for name, entries := range map[string]int{"without events": 0, "with events": 300} {
		t.Run(name, func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var all []*named
				for i := range 3 {
					f := followNamed(ctx, c.Node(fmt.Sprint("n", i+1)))
					all = append(all, f)
					before := f.read.Load()
					for range entries {
						_, err := savings.NewAccountClient(c.Client()).Ref("a").Enter(ctx, 1, "")
						require.NoError(t, err)
						c.Advance(20 * time.Millisecond)
					}
					c.Advance(5 * time.Second)
					require.GreaterOrEqual(t, f.read.Load()-before, int64(entries))
					for j, f := range all[:i] {
						require.True(t, f.ended.Load(), "loop %d goes on beside %d", j, i)
						require.ErrorIs(t, f.err, shard.ErrFollowed)
						require.ErrorContains(t, f.err, fmt.Sprintf("billing: another follower has this name: n%d#", j+2))
						require.Less(t, f.read.Load(), int64(entries*3/2+1), "it ends within about a second")
					}
					require.False(t, f.ended.Load(), "%v", f.err)
				}
				cancel()
				c.Until("the last one ends", all[2].ended.Load)
				require.ErrorIs(t, all[2].err, context.Canceled)
			}, shardtest.Nodes(3), shardtest.Host(hostSavings))
		})
	}
}

// TestFollowerKeepsItsName: lost answers of the store, even to the write that takes the name over,
// do not end a loop. Its position is stored nevertheless.
func TestFollowerKeepsItsName(t *testing.T) {
	for name, tt := range map[string]struct {
		met  func(write int) bool
		loss memorystore.Loss
	}{
		"first answer":        {func(write int) bool { return write == 1 }, memorystore.LoseAnswer},
		"first requests":      {func(write int) bool { return write <= 3 }, memorystore.LoseRequest},
		"every second answer": {func(write int) bool { return write%2 == 1 }, memorystore.LoseAnswer},
		"late writes":         {func(write int) bool { return write%3 == 1 }, memorystore.LoseTouch},
	} {
		t.Run(name, func(t *testing.T) {
			var own *memorystore.Client // of the loop's process
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				former, f, writes := takeOver(ctx, c, own, func(write int) (f memorystore.Fault) {
					if tt.met(write) {
						f.Loss, f.Late = tt.loss, 300*time.Millisecond
					}
					return f
				})
				accounts := savings.NewAccountClient(c.Client())
				for range 100 {
					_, err := accounts.Ref("a").Enter(ctx, 1, "")
					require.NoError(t, err)
					c.Advance(100 * time.Millisecond)
				}
				c.Advance(5 * time.Second)
				require.False(t, f.ended.Load(), "%v", f.err)
				require.EqualValues(t, 100, f.read.Load())
				require.True(t, former.ended.Load())
				require.ErrorIs(t, former.err, shard.ErrFollowed)
				require.Greater(t, writes.Load(), int64(5))
				cancel()
				c.Until("it ends", f.ended.Load)
				ctx, cancel = context.WithCancel(t.Context())
				defer cancel()
				later := followNamed(ctx, c.Node("n3"))
				c.Advance(5 * time.Second)
				require.Zero(t, later.read.Load(), "the position was stored")
				cancel()
				c.Until("it ends, too", later.ended.Load)
			}, shardtest.Nodes(3), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
				if c.Name == "n2" {
					own = c.Store.(*memorystore.Client)
				}
			}))
		})
	}
}

// TestFollowerTakesItsNameLater: a loop whose first write of its name does not reach the store writes it
// again, although there are no events.
func TestFollowerTakesItsNameLater(t *testing.T) {
	var own *memorystore.Client // of the loop's process
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		former, f, writes := takeOver(ctx, c, own, func(write int) (f memorystore.Fault) {
			if write == 1 {
				f.Loss = memorystore.LoseRequest
			}
			return f
		})
		c.Until("the name is taken over", former.ended.Load)
		require.Greater(t, writes.Load(), int64(1))
		require.ErrorIs(t, former.err, shard.ErrFollowed)
		require.False(t, f.ended.Load(), "%v", f.err)
		cancel()
		c.Until("it ends", f.ended.Load)
	}, shardtest.Nodes(2), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
		if c.Name == "n2" {
			own = c.Store.(*memorystore.Client)
		}
	}))
}

// A lagging store answers each read of a follower's record with the result of the read before.
type lagging struct {
	store.Backend
	mu    sync.Mutex
	found *store.Record
}

func (l *lagging) Get(ctx context.Context, key string) (store.Record, error) {
	r, err := l.Backend.Get(ctx, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !strings.HasPrefix(key, "followers/") || err != nil {
		return r, err
	}
	before := l.found
	if l.found = &r; before != nil {
		return *before, nil
	}
	return r, nil
}

// TestFollowerReadsWhatIsOutOfDate: a loop does not end if an outdated read shows the former owner
// of its name.
func TestFollowerReadsWhatIsOutOfDate(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		former := followNamed(ctx, c.Node("n1"))
		c.Advance(5 * time.Second)
		f := followNamed(ctx, c.Node("n2"))
		c.Advance(5 * time.Second)
		require.False(t, f.ended.Load(), "%v", f.err)
		require.True(t, former.ended.Load())
		latter := followNamed(ctx, c.Node("n1"))
		c.Advance(5 * time.Second)
		require.True(t, f.ended.Load())
		require.ErrorIs(t, f.err, shard.ErrFollowed)
		cancel()
		c.Until("the last one ends", latter.ended.Load)
	}, shardtest.Nodes(2), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
		if c.Name == "n2" {
			c.Store = &lagging{Backend: c.Store}
		}
	}))
}

// TestNamedFollowerBeforeTheFirstEvent: if the first events were deleted, a named follower that
// began before any event gets an error. It does not begin at the oldest kept event, as a new
// follower does.
func TestNamedFollowerBeforeTheFirstEvent(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		roll := savings.NewRollClient(c.Node("n1"))
		read := func(name string) (number uint64, err error) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			for e, err := range roll.Events(ctx, "", shard.FollowerName(name)) {
				return e.Number, err
			}
			return 0, nil
		}
		_, err := read("early")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 10 {
			_, err := roll.Ref("a").Enter(t.Context(), 1, string(make([]byte, 20<<10)))
			require.NoError(t, err)
			c.Advance(time.Second)
		}
		names := 0
		c.Until("the journal has the last three events alone", func() bool {
			names++
			number, err := read(fmt.Sprint("late", names))
			return err == nil && number == 8
		})
		_, err = read("early")
		require.ErrorIs(t, err, shard.ErrEventsGone)
		require.ErrorContains(t, err, "events 1 to 7 of the journal were deleted")
	}, shardtest.Nodes(1), shardtest.Host(hostSavings))
}

// TestEventAtWhichTheBodyPanics: if the body of a loop panics at an event, or ends its goroutine,
// the event does not count as read.
func TestEventAtWhichTheBodyPanics(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("no room") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				accounts := savings.NewAccountClient(c.Node("n1"))
				for range 3 {
					_, err := accounts.Ref("a").Enter(t.Context(), 1, "")
					require.NoError(t, err)
				}
				follow := func(end func()) (numbers []uint64) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						for e, err := range accounts.Events(t.Context(), "", shard.FollowerName("billing")) {
							require.NoError(t, err)
							if numbers = append(numbers, e.Number); e.Number == 2 {
								end()
							}
							if e.Number == 3 {
								return
							}
						}
					}()
					<-done
					return numbers
				}
				require.Equal(t, []uint64{1, 2}, follow(fail))
				require.Equal(t, []uint64{2, 3}, follow(func() {}), "the event comes again")
			}, shardtest.Nodes(1), shardtest.Host(hostSavings))
		})
	}
}

// A syncBuffer is text that several goroutines write.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestNamedFollowerBeginsWithoutTheStore: a loop that begins while the store does not answer waits
// for it. So does a loop that has begun to read. Both log it.
func TestNamedFollowerBeginsWithoutTheStore(t *testing.T) {
	var own *memorystore.Client // of the loop's process
	var log syncBuffer
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		_, err := savings.NewAccountClient(c.Client()).Ref("a").Enter(t.Context(), 1, "")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		own.Cut(true)
		f := followNamed(ctx, c.Node("n2"))
		c.Advance(time.Minute)
		require.False(t, f.ended.Load(), "%v", f.err)
		require.Equal(t, 1, strings.Count(log.String(), "a follower of events waits for the store"))
		own.Cut(false)
		c.Until("it reads", func() bool { return f.read.Load() == 1 })
		c.Advance(5 * time.Minute)
		own.Cut(true)
		c.Advance(time.Minute)
		require.False(t, f.ended.Load(), "%v", f.err)
		require.Equal(t, 2, strings.Count(log.String(), "a follower of events waits for the store"))
		own.Cut(false)
		cancel()
		c.Until("it ends", f.ended.Load)
	}, shardtest.Nodes(2), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
		if c.Name == "n2" {
			own = c.Store.(*memorystore.Client)
			c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		}
	}))
}

// TestFollowerOfASlowStore: a follower gets events, however long all shards take together to answer.
func TestFollowerOfASlowStore(t *testing.T) {
	var own *memorystore.Client // of the loop's process
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		_, err := savings.NewAccountClient(c.Client()).Ref("a").Enter(t.Context(), 1, "")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		own.Fault(func(op memorystore.Op) (f memorystore.Fault) {
			if strings.HasPrefix(op.Key, "Account/") {
				f.Delay = 2 * time.Second
			}
			return f
		})
		f := followNamed(ctx, c.Node("n2"))
		c.Advance(time.Minute)
		require.EqualValues(t, 1, f.read.Load())
		own.Fault(nil)
		cancel()
		c.Until("it ends", f.ended.Load)
	}, shardtest.Nodes(2), shardtest.Host(hostSavings), shardtest.Config(func(c *shard.Config) {
		if c.Name == "n2" {
			own = c.Store.(*memorystore.Client)
		}
	}))
}
