package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/tasks"
)

// watched calls f in a synctest bubble in which a watchdog runs.
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

// TestTurnWakesTheWatchdog: a turn wakes the watchdog after it has begun, not before. A watchdog
// woken earlier could sleep again before the turn begins, and the series would wait for the turn's
// end.
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
