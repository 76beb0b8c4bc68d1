package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/util/tasks"
)

// TestMindWhileItRuns: series may be added to the watchdog and removed while it looks.
func TestMindWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Watchdog
		w.Init(time.Now())
		stop := make(chan struct{})
		go w.Run(stop)
		defer close(stop)
		var group tasks.Group
		group.Init()
		tokens := make([]Token, 3)
		handed := make([]int, len(tokens))
		for i := range tokens {
			tokens[i].Init(&group, func() { handed[i]++ })
			w.Mind(&tokens[i])
		}
		w.Unmind(&tokens[1])
		for i := range tokens {
			hold := tokens[i].Enter()
			time.Sleep(4 * longTurn)
			synctest.Wait()
			if lost := !hold.Leave(); lost != (i != 1) {
				t.Errorf("series %d: its long turn lost the run token: %v", i, lost)
			}
		}
		synctest.Wait()
		if handed[0] != 1 || handed[1] != 0 || handed[2] != 1 {
			t.Errorf("handed over %v times, want 1, 0, 1", handed)
		}
	})
}
