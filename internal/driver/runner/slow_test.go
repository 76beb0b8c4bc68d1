package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPace: slow turns get their own goroutines until they are quick again.
func TestPace(t *testing.T) {
	var p SlowTurnDetector
	now := int64(1)
	run := func(turns int, each time.Duration) (alone int) {
		for range turns {
			if p.IsSlow() {
				alone++
				p.Took(each)
				continue
			}
			p.Ran(now)
			now += int64(each)
		}
		return alone
	}
	require.Zero(t, run(1000, time.Microsecond), "quick turns")
	require.Greater(t, run(1000, 50*time.Microsecond), 980, "of 1000 slow turns")
	require.Less(t, run(1000, time.Microsecond), 20, "of 1000 quick turns after slow ones")
	p.Rest() // another frame: how long nothing came is no turn's time
	now += int64(time.Hour)
	require.Zero(t, run(1000, time.Microsecond), "quick turns after a rest")
	p.SlowDown() // the lane was taken away
	require.Greater(t, run(1000, time.Millisecond), 980, "of 1000 long turns")
}

// TestFewLongTurns: a few long turns, as when the system stops the process or collects garbage, do
// not make turns slow. If every fourth turn or several in a row are long, they do.
func TestFewLongTurns(t *testing.T) {
	var p SlowTurnDetector
	now := int64(1)
	run := func(turns int, each time.Duration) {
		for range turns {
			p.Ran(now)
			now += int64(each)
		}
	}
	for range 10 {
		run(100, 3*time.Microsecond)
		run(3, time.Second)
		require.False(t, p.IsSlow())
	}
	run(100, 3*time.Microsecond)
	run(6, 50*time.Microsecond)
	require.True(t, p.IsSlow())
	p = SlowTurnDetector{}
	for range 100 {
		run(3, time.Microsecond)
		run(1, 500*time.Microsecond)
	}
	require.True(t, p.IsSlow())
}
