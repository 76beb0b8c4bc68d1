package shard

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlacesGoAfterABurst: a table that had many calls under way is small again when
// it had few for a while, and a late answer to a call of the burst is nobody's.
func TestPlacesGoAfterABurst(t *testing.T) {
	const burst = 10_000
	var table pendingTable
	type call struct {
		place *pendingCall
		id    uint64
	}
	open := func(n int) (calls []call) {
		for i := range n {
			c, id := table.open(nil, 0, uint64(i))
			require.NotNil(t, c)
			calls = append(calls, call{c, id})
		}
		return calls
	}
	end := func(calls []call) {
		for i, c := range calls {
			require.True(t, table.complete(c.id, result{}))
			<-c.place.done
			table.coalescer.resumed()
			table.free(c.place, uint64(i))
		}
	}
	places := func() int { return len(*table.slots.Load()) }
	sweep := func(n int) {
		for range n {
			table.sweep(1)
		}
	}
	calls := open(burst)
	sweep(2 * shrinkAfter)
	require.Equal(t, burst, places(), "all are in use")
	late := calls[len(calls)-1].id
	rest := calls[burst-3 : burst-1]
	end(calls[:burst-3])
	end(calls[burst-1:])
	sweep(2 * shrinkAfter)
	require.Equal(t, burst, places(), "two of the last are in use")
	end(rest)
	require.Equal(t, burst/4, places())
	sweep(2 * shrinkAfter)
	require.Equal(t, keptPlaces, places())

	calls = open(burst)
	require.False(t, table.complete(late, result{}), "a late answer to a call of the first burst")
	seen := map[uint64]bool{}
	for _, c := range calls {
		require.False(t, seen[c.id])
		seen[c.id] = true
		require.True(t, table.waits(c.id))
	}
	end(calls)
}

// TestPlacesStayForCallsThatComeBack: what was about to go is used again.
func TestPlacesStayForCallsThatComeBack(t *testing.T) {
	const burst = 4 * keptPlaces
	var table pendingTable
	bursts := func(n int) {
		for range n {
			var wg sync.WaitGroup
			for w := range uint64(4) {
				wg.Go(func() {
					var ids []uint64
					for range burst / 4 {
						_, id := table.open(nil, 0, w)
						ids = append(ids, id)
					}
					for _, id := range ids {
						c := table.at(id)
						if !table.complete(id, result{}) {
							t.Error("a call is gone")
							return
						}
						<-c.done
						table.coalescer.resumed()
						table.free(c, w)
					}
				})
			}
			wg.Wait()
		}
	}
	bursts(1)
	pin, id := table.open(nil, 0, 0) // keeps those beyond the limit from going all at once
	for range shrinkAfter {
		table.sweep(1)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 * shrinkAfter {
			table.sweep(1)
		}
	}()
	bursts(8)
	<-done
	require.True(t, table.complete(id, result{}))
	<-pin.done
	table.coalescer.resumed()
	table.free(pin, 0)
	for range 10 * shrinkAfter {
		table.sweep(1)
	}
	require.Zero(t, table.coalescer.underWay())
	require.Equal(t, keptPlaces, len(*table.slots.Load()))
	free := 0
	for i := range table.shards {
		free += len(table.shards[i].free)
	}
	require.Equal(t, keptPlaces, free, "none is lost, none is there twice")
}
