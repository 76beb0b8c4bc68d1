package calls

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/transport"
)

// A waiter is the Caller in these tests: a channel.
type waiter chan struct{}

func (w waiter) Wake() { w <- struct{}{} }

func newTable() *Table {
	t := &Table{}
	t.Init(func() Caller { return make(waiter, 1) })
	return t
}

// TestPlacesGoAfterABurst: a table that had many pending calls shrinks after it had few for a
// while. A late answer to a call of the burst then belongs to no call.
func TestPlacesGoAfterABurst(t *testing.T) {
	const burst = 10_000
	table := newTable()
	type call struct {
		place *Call
		id    uint64
	}
	open := func(n int) (calls []call) {
		for i := range n {
			c, id := table.Open(0, uint64(i))
			require.NotNil(t, c)
			calls = append(calls, call{c, id})
		}
		return calls
	}
	end := func(calls []call) {
		for i, c := range calls {
			require.True(t, table.Complete(c.id, Result{}))
			<-c.place.Caller.(waiter)
			table.Coalescer.Resumed()
			table.Free(c.place, uint64(i))
		}
	}
	places := func() int { return len(*table.slots.Load()) }
	sweep := func(n int) {
		for range n {
			table.Sweep(1)
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
	require.Equal(t, keptSlots, places())

	calls = open(burst)
	require.False(t, table.Complete(late, Result{}), "a late answer to a call of the first burst")
	seen := map[uint64]bool{}
	for _, c := range calls {
		require.False(t, seen[c.id])
		seen[c.id] = true
		require.True(t, table.Waits(c.id))
	}
	end(calls)
}

// TestSlotsStay: no slots are taken out of use while a table has only the slots that it always
// keeps, or while one in keptOf is in use, however often it is swept.
func TestSlotsStay(t *testing.T) {
	for _, tt := range []struct{ slots, used int }{
		{keptSlots, 0},
		{4 * keptSlots, 4*keptSlots/keptOf + 1},
	} {
		table := newTable()
		var ids []uint64
		for i := range tt.slots {
			_, id := table.Open(0, uint64(i))
			ids = append(ids, id)
		}
		for i, id := range ids[tt.used:] {
			c := table.At(id)
			require.True(t, table.Complete(id, Result{}))
			<-c.Caller.(waiter)
			table.Coalescer.Resumed()
			table.Free(c, uint64(i))
		}
		for range shrinkAfter {
			table.Sweep(1)
		}
		require.Zero(t, table.limit.Load(), "%d slots, %d in use", tt.slots, tt.used)
	}
}

// TestSlotsStayForAWhile: slots are not taken out of use when one sweep finds few of them in use,
// but when shrinkAfter sweeps in a row do. Otherwise bursts of calls would make the same slots
// again each time.
func TestSlotsStayForAWhile(t *testing.T) {
	const slots = 4 * keptSlots
	table := newTable()
	has := func() int { return len(*table.slots.Load()) }
	burst := func(sweeps int) {
		var ids []uint64
		for i := range slots {
			_, id := table.Open(0, uint64(i))
			ids = append(ids, id)
		}
		for range sweeps {
			table.Sweep(1)
		}
		for i, id := range ids {
			c := table.At(id)
			require.True(t, table.Complete(id, Result{}))
			<-c.Caller.(waiter)
			table.Coalescer.Resumed()
			table.Free(c, uint64(i))
		}
	}
	burst(0)
	for range 3 {
		for range shrinkAfter - 1 {
			table.Sweep(1)
			require.Equal(t, slots, has())
		}
		burst(1) // its sweep finds many in use
	}
	for range shrinkAfter {
		require.Equal(t, slots, has())
		table.Sweep(1)
	}
	require.Equal(t, keptSlots, has())
}

// TestPlacesStayForCallsThatComeBack: slots that are being taken out of use are used again when
// many calls come.
func TestPlacesStayForCallsThatComeBack(t *testing.T) {
	const burst = 4 * keptSlots
	table := newTable()
	bursts := func(n int) {
		for range n {
			var wg sync.WaitGroup
			for w := range uint64(4) {
				wg.Go(func() {
					var ids []uint64
					for range burst / 4 {
						_, id := table.Open(0, w)
						ids = append(ids, id)
					}
					for _, id := range ids {
						c := table.At(id)
						if !table.Complete(id, Result{}) {
							t.Error("a call is gone")
							return
						}
						<-c.Caller.(waiter)
						table.Coalescer.Resumed()
						table.Free(c, w)
					}
				})
			}
			wg.Wait()
		}
	}
	bursts(1)
	pin, id := table.Open(0, 0) // keeps those beyond the limit from going all at once
	for range shrinkAfter {
		table.Sweep(1)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 * shrinkAfter {
			table.Sweep(1)
		}
	}()
	bursts(8)
	<-done
	require.True(t, table.Complete(id, Result{}))
	<-pin.Caller.(waiter)
	table.Coalescer.Resumed()
	table.Free(pin, 0)
	for range 10 * shrinkAfter {
		table.Sweep(1)
	}
	require.Zero(t, table.Coalescer.UnderWay())
	require.Equal(t, keptSlots, len(*table.slots.Load()))
	free := 0
	for i := range table.parts {
		free += len(table.parts[i].free)
	}
	require.Equal(t, keptSlots, free, "none is lost, none is there twice")
}

// TestSweepEndsCalls: the first sweep after a call's time is over ends the call. A call whose
// caller watches the time is never ended.
func TestSweepEndsCalls(t *testing.T) {
	table := newTable()
	at, atID := table.Open(10, 0)
	_, ownID := table.Open(0, 0)
	_, afterID := table.Open(-10, 0)
	table.Sweep(9)
	require.True(t, table.Waits(atID))
	table.Sweep(10)
	require.False(t, table.Waits(atID))
	require.Equal(t, Expired, at.Result().Code)
	require.Len(t, at.Caller, 1)
	table.Sweep(18)
	require.True(t, table.Waits(afterID), "it has 10 from the sweep at 9 on")
	table.Sweep(19)
	require.False(t, table.Waits(afterID))
	require.True(t, table.Waits(ownID))
}

// A carrier is a session without a process behind it.
type carrier struct{ peer transport.Peer }

func (s *carrier) Peer() transport.Peer { return s.peer }

// TestCompleteSent: calls on a lost carrier end. Calls that have since been sent elsewhere, or
// nowhere, do not end.
func TestCompleteSent(t *testing.T) {
	table := newTable()
	lost, other := &carrier{}, &carrier{}
	var ids []uint64
	for range 4 {
		_, id := table.Open(0, 0)
		ids = append(ids, id)
	}
	table.Sent(ids[0], lost, 1)
	table.Sent(ids[1], lost, 2)
	table.Sent(ids[1], other, 1)
	table.Sent(ids[2], lost, 3)
	table.Sent(ids[2], nil, 0)
	n := table.CompleteSent(func(s Carrier) bool { return s == lost }, Result{Code: Expired})
	require.Equal(t, 1, n)
	require.False(t, table.Waits(ids[0]))
	for _, id := range ids[1:] {
		require.True(t, table.Waits(id))
	}
	table.Sent(ids[0], other, 9)
	s, seq := table.At(ids[0]).SentOn()
	require.Same(t, lost, s, "it is not in the table any more")
	require.Equal(t, uint64(1), seq)
}

// TestClose: Close answers all calls, also of an empty table, and no call is entered afterwards.
func TestClose(t *testing.T) {
	require.Zero(t, newTable().Close(Result{Code: Expired}))
	table := newTable()
	c, id := table.Open(0, 0)
	require.Equal(t, 1, table.Close(Result{Code: Expired}))
	require.False(t, table.Waits(id))
	require.Equal(t, Expired, c.Result().Code)
	for range 2 { // with a new place, and with the one that it has given back
		late, _ := table.Open(0, 0)
		require.Nil(t, late)
	}
	require.Zero(t, table.Close(Result{Code: Expired}))
	require.EqualValues(t, 1, table.Coalescer.UnderWay(), "only the first one's caller has yet to run")
}

// TestOpenBesideClose: a call that is entered while the table closes is either answered or refused.
func TestOpenBesideClose(t *testing.T) {
	for range 200 {
		table := newTable()
		var calls []*Call
		var wg sync.WaitGroup
		began := make(chan struct{})
		wg.Go(func() {
			for {
				c, _ := table.Open(0, 0)
				if c == nil {
					return
				}
				if calls = append(calls, c); len(calls) == 1 {
					close(began)
				}
			}
		})
		<-began
		table.Close(Result{Code: Expired})
		wg.Wait()
		for _, c := range calls {
			<-c.Caller.(waiter)
		}
	}
}

// TestSentOnIsOfOneCall: a call in a reused slot does not have the carrier of the slot's earlier
// call, and does not end when that carrier is lost.
func TestSentOnIsOfOneCall(t *testing.T) {
	table, lost := newTable(), &carrier{}
	first, id := table.Open(0, 0)
	table.Sent(id, lost, 5)
	require.True(t, table.Complete(id, Result{}))
	<-first.Caller.(waiter)
	to, seq := first.SentOn()
	require.Equal(t, Carrier(lost), to, "its caller may still ask")
	require.EqualValues(t, 5, seq)
	table.Free(first, 0)
	second, next := table.Open(0, 0)
	require.Same(t, first, second)
	table.Sent(id, lost, 6) // late
	to, _ = second.SentOn()
	require.Nil(t, to)
	require.Zero(t, table.CompleteSent(func(s Carrier) bool { return s == lost }, Result{Code: Lost}))
	require.True(t, table.Waits(next))
}

// BenchmarkCalls measures the table's part of remote calls by several callers.
func BenchmarkCalls(b *testing.B) {
	table, peer := newTable(), &carrier{}
	var hint atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		hint := hint.Add(7919)
		for pb.Next() {
			c, id := table.Open(0, hint)
			table.Sent(id, peer, id)
			table.Remove(id)
			table.Coalescer.Wake(1)
			table.Coalescer.Resumed()
			table.Free(c, hint)
		}
	})
}
