package runtoken

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/tasks"
)

// watched calls f in a bubble where a watchdog runs.
func watched(t *testing.T, f func(t *testing.T, w *Watchdog, group *tasks.Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var w Watchdog
		w.Init(time.Now())
		stop := make(chan struct{})
		defer close(stop)
		go w.Run(stop)
		var group tasks.Group
		group.Init()
		f(t, &w, &group)
	})
}

// TestTurnWakesTheWatchdog: the beginning of a turn, and nothing before it, wakes the watchdog. One
// that was woken earlier could sleep again before the turn begins, and the series would wait for the
// turn's end.
func TestTurnWakesTheWatchdog(t *testing.T) {
	watched(t, func(t *testing.T, w *Watchdog, group *tasks.Group) {
		var token Token
		next := make(chan struct{}, 1)
		token.Init(group, func() { next <- struct{}{} })
		w.Mind(&token)
		for range 3 {
			time.Sleep(time.Second)
			require.True(t, w.asleep.Load(), "nothing happens")
			hold := token.Enter()
			time.Sleep(4 * longTurn)
			synctest.Wait()
			require.Len(t, next, 1, "the turn takes long, and another goroutine goes on")
			require.False(t, hold.Leave())
			<-next
		}
	})
}

// TestWatchdogWaitsForNoTurn: while a turn that is notified of its loss waits for a lock, the watchdog
// has others go on and keeps the clock, by which leases are judged. The turn is notified once.
func TestWatchdogWaitsForNoTurn(t *testing.T) {
	watched(t, func(t *testing.T, w *Watchdog, group *tasks.Group) {
		locked := make(chan struct{})
		release := sync.OnceFunc(func() { close(locked) })
		defer release()
		u := &noticed{before: func() { <-locked }}
		var tokens [2]Token
		next := make(chan int, 2)
		for i := range tokens {
			tokens[i].Init(group, func() { next <- i })
			w.Mind(&tokens[i])
		}
		first := tokens[0].EnterNotified(&u.Notice, u)
		time.Sleep(4 * longTurn)
		synctest.Wait()
		require.EqualValues(t, 1, u.lost.Load())

		second := tokens[1].Enter()
		w.clock.now()
		time.Sleep(4 * longTurn)
		synctest.Wait()
		require.False(t, second.Leave(), "it has lost its run token")
		require.Equal(t, 1, <-next)
		for range 8 {
			w.clock.now()
			time.Sleep(longTurn / 2)
		}
		at, ok := w.clock.now()
		require.True(t, ok, "the clock goes on")
		require.LessOrEqual(t, time.Since(w.base)-time.Duration(at), coarseSlack)

		require.Empty(t, next, "the first has its run token still")
		release()
		synctest.Wait()
		require.False(t, first.Leave())
		require.Equal(t, 0, <-next)
		require.EqualValues(t, 1, u.lost.Load())
	})
}
