package region

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// BarrierTimeout is how long a sender's direct calls wait for its Flush through the old
// home. It only passes when the old home is neither gone nor answering.
const BarrierTimeout = 2 * time.Second

// Bounds for flushes that arrive before their barriers: their number, and how long they are kept.
const (
	maxFlushed  = 1024
	flushedKept = 30 * time.Second
)

// flushKey names one Flush: its sender, the old home that the sender's older calls pass
// through, and the placement because of which the sender left that home.
type flushKey struct {
	sender, via transport.Address
	epoch       placement.Epoch
}

// A Flush says that no older call of Sender follows through Via, which Sender left when
// it learnt of Epoch. It takes the route of those calls.
type Flush struct {
	Sender transport.Peer
	Via    transport.Peer
	Epoch  placement.Epoch
	// Hop is the epoch of the calls before it: the sender's former epoch, or the one
	// under which the last node forwarded them.
	Hop placement.Epoch
	// To is the sender's new home for the shard. Only the last node before it leaves it out. The
	// calls before the Flush may have gone under a higher epoch than Epoch: then the Flush
	// follows them first, and comes to its barrier behind them.
	To transport.Address
	// Lost says that To is gone, as this node knows. It does not travel.
	Lost bool
}

// follows reports whether the Flush takes the departure from self that the calls before it
// took. If it names a lower epoch, its barrier is here or at the sender's new home. The shard
// may have left by a table that skipped that home: then the younger calls go from there to
// where the older ones went, and the Flush has to pass there first.
func (f Flush) follows(d departure, self transport.Address) bool {
	return f.Epoch >= d.epoch || !f.To.IsZero() && f.To != self
}

func (f Flush) key() flushKey { return flushKey{f.Sender.Address, f.Via.Address, f.Epoch} }

// barrier holds one sender's direct calls until its older ones have arrived.
type barrier struct {
	flushKey
	since time.Time
	held  queue
	after []Flush // of the same sender, which has left this node too: they follow the held calls
}

// barriers are the barriers of one shard. They are few and short-lived, so lists suffice.
type barriers struct {
	closed  []*barrier
	flushed []early // flushes whose barrier has not come, or that wait for the shard to move
	// direct has the senders whose barrier has opened, with the barrier's epoch. Under
	// the tenure that holds that epoch, calls of theirs that still arrive through an
	// old home are out of order.
	direct map[transport.Address]placement.Epoch
	// returned has the senders of calls that were sent here, came back from a home that is
	// gone, and wait or ran here. That home may have passed on older ones, which are out of order if they arrive
	// by another home before the sender's next Flush, or before the shard moves on.
	returned map[transport.Address]bool
	// refused are the detours whose barriers timed out, here and at former homes. They
	// move with the shard, because calls that arrive by them are out of order at the next
	// home too.
	refused []Detour
}

// A Detour is the route of a sender's calls through an old home.
type Detour struct{ Sender, Via transport.Address }

// maxRefused bounds the refused detours; the oldest are forgotten first.
const maxRefused = 64

func (g *barriers) refuse(w Detour) {
	if slices.Contains(g.refused, w) {
		return
	}
	g.refused = append(g.refused, w)
	g.refused = g.refused[max(0, len(g.refused)-maxRefused):]
}

func (g *barriers) held() (n int) {
	for _, c := range g.closed {
		n += c.held.len()
	}
	return n
}

// before is the closed barrier that the call has to wait at; nil where it may go on. The
// youngest barrier that concerns the call counts.
func (g *barriers) before(c *Call) *barrier {
	if !c.Via.IsZero() {
		return nil
	}
	for _, t := range slices.Backward(g.closed) {
		if t.sender != c.Sender.Address || c.Epoch < t.epoch && !c.Local {
			continue
		}
		return t
	}
	return nil
}

// holds reports whether a barrier of a sender is closed that learnt of that epoch.
func (g *barriers) holds(sender transport.Address, epoch placement.Epoch) bool {
	return slices.ContainsFunc(g.closed, func(t *barrier) bool { return t.sender == sender && t.epoch == epoch })
}

func (g *barriers) find(look func(*queue) *Call) *Call {
	for _, t := range g.closed {
		if c := look(&t.held); c != nil {
			return c
		}
	}
	return nil
}

// early is a Flush that came before its barrier.
type early struct {
	Flush
	at time.Time
}

func (g *barriers) remember(f Flush, at time.Time) {
	for len(g.flushed) == maxFlushed || len(g.flushed) > 0 && at.Sub(g.flushed[0].at) > flushedKept {
		g.flushed = slices.Delete(g.flushed, 0, 1)
	}
	g.flushed = append(g.flushed, early{f, at})
}

// take removes and returns the remembered flushes for which leaves is true.
func (g *barriers) take(leaves func(Flush) bool) (out []Flush) {
	g.flushed = slices.DeleteFunc(g.flushed, func(e early) bool {
		if leaves(e.Flush) {
			out = append(out, e.Flush)
			return true
		}
		return false
	})
	return out
}

// A Shut barrier waits for the flush of Sender, which left Via under Epoch.
type Shut struct {
	Sender, Via transport.Address
	Epoch       placement.Epoch
	Held        int // calls
}
