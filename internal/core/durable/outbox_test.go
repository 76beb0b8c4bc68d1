package durable

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// TestTellsBeginWithTheEpoch: tells of a later epoch have higher numbers than any that a receiver
// may have got before the log was restored to an older state. The floor skips the numbers between
// two epochs at once.
func TestTellsBeginWithTheEpoch(t *testing.T) {
	now, to := time.Unix(0, 0), Target{Log: "Stock", Shard: 7}
	o := outbox{pairs: map[Target]*pair{}}
	tell := func(epoch uint64) uint64 {
		c := &wire.DurableCommit{Tells: o.number([]Tell{{Target: to, Entity: "tea"}}, epoch)}
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

// TestFirstOfATell: a tell has the time at which it may have been sent first, unless this home
// committed it a moment ago and has not sent it yet.
func TestFirstOfATell(t *testing.T) {
	commit := time.UnixMilli(1_000_000)
	for name, c := range map[string]struct {
		ticket Ticket        // 0: an older home has committed it
		after  time.Duration // from the commit until it is due first
		again  bool          // it is due again
		known  bool
	}{
		"at once":                 {1, 0, false, true},
		"a moment later":          {1, fresh, false, true},
		"after standing still":    {1, fresh + time.Millisecond, false, false},
		"again":                   {1, 0, true, false},
		"of an older home":        {0, 0, false, false},
		"of an older home, again": {0, 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := outbox{pairs: map[Target]*pair{}}
			e := &wire.DurableCommit{At: commit.UnixMilli(), Tells: o.number([]Tell{{Target: Target{Log: Published}, Entity: "e"}}, 1)}
			o.put(e, commit, c.ticket)
			now := commit.Add(c.after)
			all := o.due(now, time.Second, 1)
			if c.again {
				now = now.Add(time.Second)
				o.lookAgain(now)
				all = o.due(now, time.Second, 1)
			}
			want := commit
			if c.known {
				want = time.Time{}
			}
			if len(all) != 1 || !all[0].First.Equal(want) {
				t.Errorf("got %+v, want one tell whose First is %v", all, want)
			}
		})
	}
}
