package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLease: turns begin until the lease ends, to the nanosecond, and not in a later phase. Turns
// that ran may still be answered if the node leaves gracefully.
func TestLease(t *testing.T) {
	var l Lease
	l.Init(time.Now())
	end := time.Hour
	l.Renew(l.Base().Add(end))
	require.True(t, l.Valid())
	require.True(t, l.ValidAt(int64(end)-1))
	require.False(t, l.ValidAt(int64(end)), "the lease is over")
	require.True(t, l.Lasts())
	l.End(Closing)
	require.False(t, l.Valid(), "no turn begins")
	require.False(t, l.ValidAt(0))
	require.True(t, l.Lasts(), "the node has contact")
	require.True(t, l.MayAnswer())
	l.Renew(l.Base())
	require.False(t, l.Lasts())
	require.False(t, l.MayAnswer(), "the others may run its entities")
	l.Renew(l.Base().Add(end))
	l.End(Ending)
	require.False(t, l.Lasts())
	require.False(t, l.Valid(), "the node leaves")
	require.False(t, l.ValidAt(0))
	require.True(t, l.MayAnswer())
	l.End(Over)
	require.False(t, l.MayAnswer(), "the node has left")
	l.End(Ending)
	require.False(t, l.MayAnswer(), "there is no way back")
	l.Renew(time.Time{})
	require.False(t, l.Valid())
	require.False(t, l.MayAnswer())
}
