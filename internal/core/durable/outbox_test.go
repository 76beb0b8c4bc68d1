package durable

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// TestTellsBeginWithTheEpoch: the numbers of a later epoch are above all that a receiver may have had before
// the log was put back, and the floor goes over the numbers between two epochs at once.
func TestTellsBeginWithTheEpoch(t *testing.T) {
	now, to := time.Unix(0, 0), Target{Log: "Stock", Shard: 7}
	o := outbox{pairs: map[Target]*pair{}}
	tell := func(epoch uint64) uint64 {
		c := &wire.DurableCommit{Tells: unnumbered([]Tell{{Target: to, Entity: "tea"}})}
		o.number(c.Tells, epoch)
		o.put(c, now, 0)
		return c.Tells[0].Number
	}
	const early, late = 3 << 32, 5 << 32
	want := []uint64{early, early + 1, late, late + 1}
	for i, epoch := range []uint64{early, early, late, early} {
		if got := tell(epoch); got != want[i] {
			t.Errorf("tell %d has number %d, want %d", i, got, want[i])
		}
	}
	for i, floor := range []uint64{early, early + 1, late, late + 1, late + 2} {
		if got := o.pairs[to].floor(); got != floor {
			t.Errorf("the floor is %d after %d arrivals, want %d", got, i, floor)
		}
		if i < len(want) {
			o.arrive(to, want[i], now)
		}
	}
	if got := tell(1 << 63); got != maxFirst {
		t.Errorf("a tell of a huge epoch has number %d, want %d", got, uint64(maxFirst))
	}
	if err := o.check(); err != nil {
		t.Error(err)
	}
}
