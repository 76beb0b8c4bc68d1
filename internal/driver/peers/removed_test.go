package peers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/transport"
)

// TestRemovedProcessesAreForgotten: a removed process is recorded for a day, and the latest removed
// processes for longer. The number of records is bounded.
func TestRemovedProcessesAreForgotten(t *testing.T) {
	var r removed
	begin := time.Now()
	n := func(i int) transport.Address { return transport.Address{Name: "n", Incarnation: uint64(i)} }
	for i := range maxRemoved {
		r.add(n(i), begin.Add(time.Duration(i)))
	}
	require.True(t, r.has(n(0)))
	r.add(n(0), begin.Add(time.Hour)) // again changes nothing
	r.forget(n(1))
	require.False(t, r.has(n(1)))
	r.add(n(maxRemoved), begin.Add(time.Hour))
	require.True(t, r.has(n(0)), "there was room")
	r.add(n(maxRemoved+1), begin.Add(time.Hour))
	require.False(t, r.has(n(0)), "the earliest makes room")
	require.True(t, r.has(n(2)))

	r.add(n(maxRemoved+2), begin.Add(removedFor+time.Minute))
	require.False(t, r.has(n(2)), "a day has passed")
	require.True(t, r.has(n(maxRemoved)), "an hour later")
	require.Len(t, r.at, 3)
	require.Len(t, r.order, 3)
}

// TestSetForgetsRemovedProcesses: a process does not record all of the many processes that it has
// seen come and go.
func TestSetForgetsRemovedProcesses(t *testing.T) {
	var s Set
	s.Init(nil, Config{Lanes: 1})
	for i := range 2 * maxRemoved {
		a := transport.Address{Name: "n", Incarnation: uint64(i + 1)}
		_, ok := s.Remove(a, -1, false)
		require.True(t, ok)
		require.Nil(t, s.Session(transport.Peer{Address: a}, 0))
		_, ok = s.Remove(a, -1, false)
		require.False(t, ok, "twice")
	}
	require.LessOrEqual(t, len(s.removed.at), maxRemoved)
}
