package node

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLedgerAddSeldom: a frequent event is counted each time, but logged more and more rarely.
func TestLedgerAddSeldom(t *testing.T) {
	var l Counters
	var told []uint64
	for range 1000 {
		if n, tell := l.AddSeldom(FrameForeign); tell {
			told = append(told, n)
		}
	}
	require.Equal(t, "[1 2 4 8 16 32 64 128 256 512]", fmt.Sprint(told))
	require.EqualValues(t, 1000, l.snapshot()["foreign frame"])
}

// TestAlikeLinesAreSeldom: a method that panics on every call does not fill the log.
func TestAlikeLinesAreSeldom(t *testing.T) {
	var s LogLimiter
	told := 0
	for range 1000 {
		if _, tell := s.count("panic", "Account", "Add"); tell {
			told++
		}
	}
	require.Equal(t, 10, told)
	n, tell := s.count("panic", "Account", "Get")
	require.True(t, tell, "of another method")
	require.EqualValues(t, 1, n)
}

// TestLinesOfOneNameAreThinned: lines about one name are logged ever more rarely, the first line
// about another name is logged, and invented names share a count.
func TestLinesOfOneNameAreThinned(t *testing.T) {
	var drv Driver
	told := 0
	for range 1000 {
		if _, tell := drv.AddSeldomOf(MessageForbidden, "evil"); tell {
			told++
		}
	}
	require.Equal(t, 10, told)
	n, tell := drv.AddSeldomOf(MessageForbidden, "web")
	require.True(t, tell)
	require.EqualValues(t, 1, n)
	_, tell = drv.AddSeldomOf(FrameForeign, "evil")
	require.True(t, tell, "for another reason")
	for i := range 100_000 {
		if _, tell := drv.AddSeldomOf(FrameForeign, fmt.Sprint("invented-", i)); tell {
			told++
		}
	}
	for r := range reasons {
		drv.AddSeldomOf(r, "evil") // each reason has a text
	}
	require.Less(t, told, maxLogKeys+100)
	require.LessOrEqual(t, len(drv.outside.counts), maxLogKeys+int(reasons))
	require.EqualValues(t, 1002, drv.Counts.snapshot()["forbidden message"])
}
