package shard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace: a lane hands turns over when they take long, and looks again later.
func TestPace(t *testing.T) {
	var p pace
	now := int64(1)
	run := func(turns int, each time.Duration) (elsewhere int) {
		for range turns {
			if p.elsewhere() {
				elsewhere++
				continue
			}
			p.ran(now)
			now += int64(each)
		}
		return elsewhere
	}
	require.Zero(t, run(1000, time.Microsecond), "quick turns")
	got := run(1000, 50*time.Microsecond)
	require.Greater(t, got, 900, "of 1000 slow turns")
	require.Less(t, got, 1000, "of 1000 slow turns: some tell how long they take")
	run(slowTurns, time.Microsecond)
	require.Zero(t, run(1000, time.Microsecond), "quick turns again")
	p.last = 0 // another frame: how long nothing came is no turn's time
	now += int64(time.Hour)
	require.Zero(t, run(1000, time.Microsecond), "quick turns after a rest")
}
