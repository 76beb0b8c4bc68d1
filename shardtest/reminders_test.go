package shardtest_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/shardtest"
)

// alarms hosts Alarm entities. Their method Snooze counts its runs in tried.
func alarms(tried *atomic.Int64) shardtest.Option {
	return shardtest.Host(func(n *shard.Node) error {
		others := bank.NewAlarmClient(n)
		return bank.HostAlarm(n, func() *bank.Alarm {
			return &bank.Alarm{Others: others, Tried: func() int64 { return tried.Add(1) }}
		})
	})
}

func withAlarms(t *testing.T, test func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64), opts ...shardtest.Option) {
	tried := &atomic.Int64{}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		test(t, c, bank.NewAlarmClient(c.Client()), tried)
	}, append(opts, alarms(tried), shardtest.Nodes(3))...)
}

func rung(t *testing.T, all *bank.AlarmClient, id string) string {
	t.Helper()
	rings, err := all.Ref(id).Rung(t.Context())
	require.NoError(t, err)
	return strings.Join(rings, ", ")
}

func TestReminder(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		began := time.Now()
		require.NoError(t, all.Ref("a").In(ctx, time.Minute, "one", "hello"))
		require.NoError(t, all.Tell("a", shard.In(2*time.Minute)).Ring(ctx, "from outside"))
		require.NoError(t, all.Tell("b", shard.At(time.Now().Add(-time.Hour))).Ring(ctx, "late"))
		c.Until("b rings", func() bool { return rung(t, all, "b") != "" })
		require.Contains(t, rung(t, all, "b"), "late")
		require.Empty(t, rung(t, all, "a"))
		c.Advance(59*time.Second - time.Since(began))
		require.Empty(t, rung(t, all, "a"), "before it is due")
		c.Advance(2 * time.Second)
		require.Contains(t, rung(t, all, "a"), "one ")
		c.Advance(time.Minute)
		require.Contains(t, rung(t, all, "a"), "+0 from outside")
		c.Advance(5 * time.Minute)
		require.Equal(t, 2, strings.Count(rung(t, all, "a"), "+0"), "once each")
	})
}

// TestReminderIsReplacedAndCancelled: a reminder replaces an earlier one of the same name, and a
// cancelled reminder never runs.
func TestReminderIsReplacedAndCancelled(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		a := all.Ref("a")
		require.NoError(t, a.In(ctx, 10*time.Second, "x", "first"))
		require.NoError(t, a.In(ctx, 20*time.Second, "x", "second"))
		require.NoError(t, a.In(ctx, 20*time.Second, "y", "never"))
		require.NoError(t, a.In(ctx, 20*time.Second, "z", "never"))
		there, err := a.Cancel(ctx, "y")
		require.NoError(t, err)
		require.True(t, there)
		there, err = all.Unschedule(ctx, "a", "z")
		require.NoError(t, err)
		require.True(t, there)
		there, err = all.Unschedule(ctx, "a", "z")
		require.NoError(t, err)
		require.False(t, there)
		plans, err := a.Plans(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, plans)
		reminders, err := all.Scheduled(ctx, "a")
		require.NoError(t, err)
		require.Len(t, reminders, 1)
		require.Equal(t, "Ring", reminders[0].Method)
		c.Advance(time.Minute)
		require.Contains(t, rung(t, all, "a"), "second")
		require.NotContains(t, rung(t, all, "a"), ",")
	})
}

// TestReminderOfOthers: an entity sets another entity's reminder by a tell.
func TestReminderOfOthers(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		require.NoError(t, all.Ref("a").Wake(t.Context(), "b", 10*time.Second))
		c.Advance(9 * time.Second)
		require.Empty(t, rung(t, all, "b"))
		c.Advance(3 * time.Second)
		require.Contains(t, rung(t, all, "b"), "woken by a")
	})
}

// TestReminderSetsTheNext: each turn of a reminder sets the next one of the same name.
func TestReminderSetsTheNext(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		require.NoError(t, all.Ref("a").Chain(t.Context(), 5))
		c.Advance(10 * time.Second)
		require.Equal(t, "chain 5, chain 4, chain 3, chain 2, chain 1, chain 0", rung(t, all, "a"))
	})
}

// TestReminderFails: if a reminder's turn fails, its changes are dropped, and it runs again.
func TestReminderFails(t *testing.T) {
	for name, n := range map[string]int64{"TryAgain": 3, "panic": -3} {
		t.Run(name, func(t *testing.T) {
			withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64) {
				ctx := t.Context()
				require.NoError(t, all.Tell("a", shard.In(time.Second)).Snooze(ctx, n))
				require.NoError(t, all.Ref("a").In(ctx, 2*time.Second, "other", "not held up"))
				c.Advance(2500 * time.Millisecond)
				require.Contains(t, rung(t, all, "a"), "not held up")
				c.Advance(20 * time.Second)
				require.Contains(t, rung(t, all, "a"), "snooze 4")
				require.Equal(t, int64(4), tried.Load())
				c.Advance(5 * time.Minute)
				require.Equal(t, int64(4), tried.Load())
			})
		})
	}
}

// TestReminderIsGivenUp: after an hour of failures a reminder stays stored, but does not run.
func TestReminderIsGivenUp(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64) {
		require.NoError(t, all.Tell("a", shard.In(time.Second)).Snooze(t.Context(), 1000))
		c.Advance(time.Minute)
		c.SkipTime(time.Hour)
		times := tried.Load()
		plans, err := all.Ref("a").Plans(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{fmt.Sprintf("Snoozeit failed %d times", times)}, plans)
		require.Less(t, times, int64(25))
		c.SkipTime(2 * time.Hour)
		require.Equal(t, times, tried.Load())
		h := c.Node("n1").Health()
		require.Contains(t, h.Reasons, "the wall clock is 3h0m0s behind the store's (synchronize the clocks: log lines, and the expiry of entities and idempotency keys, depend on them)")
		require.True(t, h.Ready && h.Settled)
	})
}

// TestReminderEnds: a reminder forgotten with its entity does not run. A //shard:read method cannot
// set a reminder.
func TestReminderEnds(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		require.NoError(t, all.Ref("a").In(ctx, time.Minute, "x", "never"))
		why, err := all.Ref("a").Spoil(ctx)
		require.NoError(t, err)
		require.Contains(t, why, "//shard:read")
		require.NoError(t, all.Ref("a").Over(ctx))
		c.Advance(2 * time.Minute)
		require.Empty(t, rung(t, all, "a"))
		_, err = shard.Unschedule(ctx, "x")
		require.ErrorIs(t, err, shard.ErrNoReminders)
		require.ErrorContains(t, bank.AlarmSelf(ctx, shard.In(time.Second)).Ring(ctx, ""), "no turn")
		require.ErrorContains(t, all.Ref("a", shard.In(time.Second)).Over(ctx), "Tell")
		require.ErrorContains(t, all.Tell("a", shard.Every(time.Millisecond)).Ring(ctx, ""), "at least 1s")
		require.ErrorContains(t, all.Tell("a", shard.Cron("61 * * * *", "")).Ring(ctx, ""), "61")
	})
}

// TestReminderOverMoves: while shards move and homes die, each reminder fires once, and none early.
func TestReminderOverMoves(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		const n = 60
		for i := range n {
			require.NoError(t, all.Ref(fmt.Sprint(i)).In(ctx, time.Duration(i%20)*time.Second, "x", "once"))
		}
		for i := range 6 {
			c.Advance(2 * time.Second)
			name := fmt.Sprint("n", i%3+1)
			if i%2 == 0 {
				c.Kill(name)
				c.Advance(time.Second)
				c.Start(name)
			} else {
				c.Restart(name)
			}
		}
		c.Advance(30 * time.Second)
		for i := range n {
			require.Equal(t, 1, strings.Count(rung(t, all, fmt.Sprint(i)), "once"), "alarm %d: %s", i, rung(t, all, fmt.Sprint(i)))
		}
	})
}

// TestReminderWithoutACall: after all nodes were killed, a reminder runs although nobody calls.
func TestReminderWithoutACall(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64) {
		require.NoError(t, all.Tell("a", shard.In(10*time.Second)).Snooze(t.Context(), 0))
		for _, name := range []string{"n1", "n2", "n3"} {
			c.Kill(name)
		}
		c.Advance(time.Minute)
		require.Zero(t, tried.Load())
		for _, name := range []string{"n1", "n2", "n3"} {
			c.Start(name)
		}
		c.Until("it runs", func() bool { return tried.Load() == 1 })
	})
}

// TestYearOfReminders lets a year pass, in which all processes stop for ten days.
func TestYearOfReminders(t *testing.T) {
	if testing.Short() {
		t.Skip("hours of virtual time")
	}
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		const day = 24 * time.Hour
		require.NoError(t, all.Ref("a").Daily(ctx, "0 12 * * *", "UTC")) // a bubble begins at midnight
		require.NoError(t, all.Tell("b", shard.Every(day)).Ring(ctx, "each"))
		for range 365 {
			c.SkipTime(day)
		}
		require.Equal(t, 365, strings.Count(rung(t, all, "a"), "+0 cron"))
		require.Equal(t, 365, strings.Count(rung(t, all, "b"), "+0 each"))
		for _, name := range []string{"n1", "n2", "n3"} {
			c.Shutdown(name)
		}
		c.SkipTime(10 * day)
		for _, name := range []string{"n1", "n2", "n3"} {
			c.Start(name)
		}
		c.Until("the missed ones ring once", func() bool {
			return strings.Contains(rung(t, all, "a"), "+9 cron") && strings.Contains(rung(t, all, "b"), "+9 each")
		})
		c.SkipTime(day)
		require.Equal(t, 367, strings.Count(rung(t, all, "a"), "cron"))
	})
}

// TestOthersAreNotHeldUp: while a reminder waits minutes for its next try, another reminder of the
// entity runs when it is due.
func TestOthersAreNotHeldUp(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, tried *atomic.Int64) {
		ctx := t.Context()
		require.NoError(t, all.Tell("a", shard.In(time.Second)).Snooze(ctx, 1000))
		require.NoError(t, all.Ref("a").In(ctx, 20*time.Minute, "other", "in time"))
		c.Advance(19 * time.Minute)
		require.Greater(t, tried.Load(), int64(9), "so it is tried each 5 min")
		c.Advance(time.Minute + time.Second)
		require.Contains(t, rung(t, all, "a"), "in time")
		require.NoError(t, all.Ref("a").In(ctx, time.Second, "new", "at once"))
		c.Advance(2 * time.Second)
		require.Contains(t, rung(t, all, "a"), "at once")
	})
}

// TestRemindersThatHang: a node runs half as many reminders at a time as it has processors, and
// reminders that take longer than 1 ms do not hold up others.
func TestRemindersThatHang(t *testing.T) {
	var began atomic.Int64
	hang := make(chan struct{})
	host := shardtest.Host(func(n *shard.Node) error {
		return bank.HostAlarm(n, func() *bank.Alarm {
			return &bank.Alarm{Tried: func() int64 {
				began.Add(1)
				<-hang
				return 1
			}}
		})
	})
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		all := bank.NewAlarmClient(c.Client())
		hang = make(chan struct{}) // made in the test's bubble
		defer func() { close(hang) }()
		due := time.Now().Add(time.Minute)
		for i := range 600 {
			require.NoError(t, all.Tell(fmt.Sprint(i), shard.At(due)).Snooze(t.Context(), 0))
		}
		require.NoError(t, all.Tell("other", shard.At(due.Add(100*time.Millisecond))).Ring(t.Context(), "in time"))
		c.Advance(time.Until(due))
		c.Advance(9 * time.Millisecond)
		most := int64(max(1, runtime.GOMAXPROCS(0)/2))
		require.LessOrEqual(t, began.Load(), 32*most)
		require.Positive(t, began.Load())
		c.Advance(3 * time.Second)
		require.Equal(t, int64(600), began.Load())
		require.Contains(t, rung(t, all, "other"), "in time")
	}, host, shardtest.Nodes(1))
}

// TestJitter: a delay is below its limit, differs between entities, and is the same again for each.
func TestJitter(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		const entities, limit = 20, 6 * time.Minute
		late := func(note string) (of [entities]int) {
			due := time.Now().Add(time.Minute)
			for i := range of {
				require.NoError(t, all.Tell(fmt.Sprint(i), shard.At(due), shard.Jitter(limit)).Ring(t.Context(), note))
			}
			c.Advance(time.Minute - time.Second)
			for part := range 6 {
				for i := range of {
					require.False(t, part == 0 && strings.Contains(rung(t, all, fmt.Sprint(i)), note), "before it is due")
					if !strings.Contains(rung(t, all, fmt.Sprint(i)), note) {
						of[i] = part
					}
				}
				c.Advance(limit / 6)
			}
			c.Advance(2 * time.Second)
			for i := range of {
				require.Contains(t, rung(t, all, fmt.Sprint(i)), note)
			}
			return of
		}
		first := late("once")
		require.Equal(t, first, late("again"))
		for part := range 6 {
			require.Contains(t, first, part)
		}
	})
}

// TestReminderOptions: a tell whose options make no reminder fails, and says why. A time that has
// passed is due at once.
func TestReminderOptions(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		late := time.UnixMilli(math.MaxInt64 - 1000)
		for _, tt := range []struct {
			want    string
			options []shard.CallOption
		}{
			{"no due time (add shard.In", []shard.CallOption{shard.Jitter(time.Second)}},
			{"several due times", []shard.CallOption{shard.Every(time.Minute), shard.In(time.Second)}},
			{"the year 9999", []shard.CallOption{shard.At(late), shard.Jitter(time.Hour)}},
			{"the year 9999", []shard.CallOption{shard.At(time.Unix(1<<63-62135596801, 999999999))}}, // the latest time.Time
			{"want at least", []shard.CallOption{shard.In(time.Second), shard.Jitter(-1)}},
			{"want at least", []shard.CallOption{shard.In(time.Second), shard.SkipLate(time.Millisecond - 1)}},
			{"UTF-8", []shard.CallOption{shard.In(time.Second), shard.Named("\xff")}},
		} {
			require.ErrorContains(t, all.Tell("a", tt.options...).Ring(t.Context(), ""), tt.want)
		}
		require.ErrorContains(t, all.Ref("a").In(t.Context(), time.Second, "\xff", ""), "UTF-8")
		for i, past := range []time.Time{{}, time.UnixMilli(0), time.UnixMilli(math.MinInt64)} {
			require.NoError(t, all.Tell(fmt.Sprint(i), shard.At(past)).Ring(t.Context(), "at once"))
			c.Advance(time.Second)
			require.Contains(t, rung(t, all, fmt.Sprint(i)), "at once")
		}
	})
}

// TestReminderIsNotEarly: a due time is not cut to a millisecond.
func TestReminderIsNotEarly(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		at := time.Now().Add(time.Minute).Truncate(time.Millisecond).Add(900 * time.Microsecond)
		require.NoError(t, all.Tell("a", shard.At(at)).Ring(t.Context(), "n"))
		c.Advance(time.Until(at) - 300*time.Microsecond)
		require.Empty(t, rung(t, all, "a"))
		c.Advance(2 * time.Millisecond)
		require.NotEmpty(t, rung(t, all, "a"))
	})
}

// TestScheduledInALocalRead: a method marked //shard:read sees the reminders and changes none, also
// if its caller is at the entity's home.
func TestScheduledInALocalRead(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		all := bank.NewAlarmClient(c.Node("n1"))
		require.NoError(t, all.Ref("a").In(t.Context(), time.Minute, "x", "n"))
		for range 3 {
			plans, err := all.Ref("a").Plans(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"x"}, plans)
			why, err := all.Ref("a").Spoil(t.Context())
			require.NoError(t, err)
			require.Contains(t, why, "remove the mark")
		}
	}, shardtest.Nodes(1), shardtest.Host(func(n *shard.Node) error {
		return bank.HostAlarm(n, func() *bank.Alarm { return &bank.Alarm{} })
	}))
}

// TestPausedReminders: while a type's reminders are paused none begins at any home, even after a
// move or a restart of all nodes, or if it is set meanwhile. After the pause each runs once.
func TestPausedReminders(t *testing.T) {
	withAlarms(t, func(t *testing.T, c *shardtest.Cluster, all *bank.AlarmClient, _ *atomic.Int64) {
		ctx := t.Context()
		o, err := admin.Dial(ctx, admin.Options{Cluster: "shardtest", Transport: c.Broker().Transport(), Name: "operator"})
		require.NoError(t, err)
		defer func() { require.NoError(t, o.Close()) }()
		silent := func(when string) {
			t.Helper()
			c.Advance(2 * time.Minute)
			for _, id := range []string{"a", "b", "c"} {
				require.NotContains(t, rung(t, all, id), "paused", when)
			}
		}
		require.NoError(t, all.Ref("a").In(ctx, time.Second, "early", "before"))
		c.Until("a rings", func() bool { return strings.Contains(rung(t, all, "a"), "before") })
		require.NoError(t, all.Ref("a").In(ctx, 30*time.Second, "due", "paused"))
		require.NoError(t, o.PauseReminders(ctx, "Alarm"))
		require.NoError(t, o.PauseReminders(ctx, "Alarm"), "again")
		c.Advance(6 * time.Second)
		require.NoError(t, all.Ref("b").In(ctx, time.Second, "later", "paused"))
		silent("paused")
		home := c.Home("Alarm", "a")
		for _, other := range c.Running() {
			if other != home {
				c.Move("Alarm", "a", other)
				break
			}
		}
		silent("after a move")
		c.Kill(c.Home("Alarm", "b"))
		silent("after a kill")
		for _, name := range c.Running() {
			c.Kill(name)
		}
		for i := range 3 {
			c.Start(fmt.Sprint("new", i))
		}
		require.NoError(t, all.Ref("c").In(ctx, time.Second, "last", "paused"))
		silent("after a restart of all nodes")
		text, err := o.RemindersPaused(ctx, "Alarm")
		require.NoError(t, err)
		require.Contains(t, text, " by operator")
		require.NoError(t, o.ResumeReminders(ctx, "Alarm"))
		c.Advance(6 * time.Second)
		for _, id := range []string{"a", "b", "c"} {
			require.Equal(t, 1, strings.Count(rung(t, all, id), "paused"), id)
		}
		text, err = o.RemindersPaused(ctx, "Alarm")
		require.NoError(t, err)
		require.Empty(t, text)
		require.ErrorContains(t, o.PauseReminders(ctx, "Nothing"), "Nothing")
	})
}
