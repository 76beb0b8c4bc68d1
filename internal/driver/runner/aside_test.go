package runner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// anEntity returns an active entity of an open shard.
func anEntity() *region.Entity {
	self := transport.Address{Name: "a", Incarnation: 1}
	s := region.New(placement.ShardID{Kind: "K", Shard: 1}, self, region.Limits{Mailbox: 9, Waiting: 9})
	s.Direct(true)
	s.Place(self, 10, false, 0, time.Unix(0, 0))
	e := s.Begin("x", 1)
	e.Value = "value"
	s.End(e, 1)
	return e
}

// TestAsides: an entity's tells are set aside from the moment its turn goes on without the run
// token until the last of these tells has begun, whichever goroutine reports the loss first.
func TestAsides(t *testing.T) {
	tell := func(e *region.Entity, method string) *Turn { return &Turn{Entity: e, Method: method} }
	for name, begin := range map[string]func(a *asides, e *region.Entity){
		"the next goroutine is first": func(a *asides, e *region.Entity) { a.resumed(e); a.Lost(e) },
		"the tell is over first":      func(a *asides, e *region.Entity) { a.Lost(e); a.resumed(e) },
		"the entity restarts":         func(a *asides, e *region.Entity) { a.SetAside(e) },
		"the tell is over first, and the entity restarts": func(a *asides, e *region.Entity) {
			a.Lost(e)
			a.SetAside(e)
			a.resumed(e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var a asides
			e, other := anEntity(), anEntity()
			for range 4 {
				require.Equal(t, region.Entered, e.Join(9, 1))
			}
			require.False(t, a.add(tell(e, "early"), nil), "its turn has the run token")
			begin(&a, e)
			require.True(t, a.some())
			args := []byte("one")
			require.True(t, a.add(tell(e, "1"), args))
			copy(args, "ooo") // the buffer is used again
			require.True(t, a.add(tell(e, "2"), []byte("two!")))
			require.False(t, a.add(tell(other, "3"), nil), "another entity's")
			require.EqualValues(t, 7+2*turnBytes, a.bytes.Load())

			next, goesOn, left := a.leave(e, 1)
			require.Equal(t, Aside{"1", []byte("one")}, next)
			require.True(t, goesOn && left)
			require.EqualValues(t, 4+turnBytes, a.bytes.Load())
			next, goesOn, left = a.leave(e, 1)
			require.Equal(t, Aside{"2", []byte("two!")}, next)
			require.True(t, goesOn && left)
			_, goesOn, left = a.leave(e, 1)
			require.True(t, left && !goesOn, "the fourth is not put aside, and will be run by the goroutine with the run token")
			require.False(t, a.some())
			require.False(t, a.add(tell(e, "4"), nil))
			require.True(t, e.Busy())
			_, goesOn, left = a.leave(e, 1)
			require.True(t, left && !goesOn)
			require.False(t, e.Busy(), "all are over")
			require.Zero(t, a.bytes.Load())
		})
	}
}

// TestLostOnce: a tell that ended before the next goroutine began leaves nothing behind.
func TestLostOnce(t *testing.T) {
	var a asides
	e := anEntity()
	e.Join(9, 1)
	a.Lost(e)
	a.leave(e, 1)
	a.resumed(e)
	require.False(t, a.some(), "nobody would take what is put aside")
	e.Join(9, 1)
	a.resumed(e) // of its next tell, which runs still
	require.True(t, a.add(&Turn{Entity: e}, nil))
}

// TestAsidesAreBounded: tells that are set aside count among the waiting bytes.
func TestAsidesAreBounded(t *testing.T) {
	r, group := newRunner(&script{run: func(*Turn, []byte) bool { return true }})
	r.SetMost(100)
	e := anEntity()
	e.Join(9, 1)
	e.Join(9, 1)
	r.SetAside(e)
	require.True(t, r.Offer(Turn{Entity: e}, make([]byte, 100)))
	require.Eventually(t, func() bool { return r.asides.bytes.Load() == int64(100+turnBytes) }, time.Minute, time.Millisecond)
	require.False(t, r.Offer(Turn{Entity: anEntity()}, nil))
	require.True(t, r.Leave(e, 1))
	require.True(t, group.Wait(t.Context()))
	require.True(t, r.Offer(Turn{Entity: anEntity()}, nil), "there is room again")
	require.True(t, group.Wait(t.Context()))
}
