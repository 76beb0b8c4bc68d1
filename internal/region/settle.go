package region

import (
	"fmt"
	"maps"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A shard that has moved away is settled when no sender is known whose calls still
// come here. From then on it counts as gone, and late direct calls are answered with
// Moved, also while it comes back: an older one, which was refused, may not have come here
// again. Its departures stay, at most maxForwardings of them: late flushes, and calls that
// older homes forward, still take the way of the calls before them.

// owedFor is how long the Flush of a sender is waited for after its last call came.
const owedFor = 10 * time.Second

// maxOwed bounds the senders whose Flush is waited for by name.
const maxOwed = 1024

// onward returns the verdict on a call for a shard that has left. Only calls that go on
// from a shard that is still away are followed by a Flush that matters to Settle.
func (s *Shard) onward(c *Call) Verdict {
	if s.how.Refusing {
		return Moved
	}
	s.owe(c)
	return Forward
}

// owe notes that the call's sender has yet to flush. Calls of this process find their
// own way, and those by way of an older home are followed by that home's Flush.
func (s *Shard) owe(c *Call) {
	if s.state != Forwarding || !c.Via.IsZero() || c.Local {
		return
	}
	s.settled = false
	sender := c.Sender.Address
	if _, known := s.owed[sender]; !known && len(s.owed) >= maxOwed {
		sender = transport.Address{} // stands for all others, until they have been silent
	}
	if s.owed == nil {
		s.owed = owed{}
	}
	s.owed[sender] = c.at
}

// owed has the senders that have yet to flush, and when their last calls came.
type owed map[transport.Address]time.Time

// repay notes that a sender's Flush goes from self the way of its calls.
func (o owed) repay(f Flush, self transport.Address) {
	if f.Via.Address == self {
		delete(o, f.Sender.Address)
	}
}

// Settle ends forwarding if nothing waits here and every sender whose calls were
// forwarded has flushed, is gone, or was silent for 10 s.
func (s *Shard) Settle(at time.Time) {
	defer s.check()
	if !s.Unsettled() || s.Waiting() > 0 {
		return
	}
	maps.DeleteFunc(s.owed, func(_ transport.Address, last time.Time) bool { return at.Sub(last) >= owedFor })
	s.settled = len(s.owed) == 0
	if s.settled {
		s.over = s.forwarding.last().epoch
		s.barriers.returned = nil
	}
}

// leavingFor is how long after a sender's last call a node that leaves waits for its Flush.
const leavingFor = time.Second

// Owes reports whether the Flush of a sender is to come whose last call was forwarded less
// than 1 s ago. A node that leaves waits for it: the home to which it forwarded may hold the
// sender's calls back, and only the Flush tells the sender's next home to wait for them.
func (s *Shard) Owes(at time.Time) bool {
	for _, last := range s.owed { //arch:order-free any of them
		if at.Sub(last) < leavingFor {
			return true
		}
	}
	return false
}

// Unsettled reports whether Settle is to be called again after a while. Until the table
// shows where the shard went, and while nobody is known to have it, it does not settle.
func (s *Shard) Unsettled() bool {
	return s.state == Forwarding && !s.settled && !s.strays() && s.shown >= s.forwarding.last().epoch
}

// Settled reports whether the shard has moved away and nothing of it is left here.
func (s *Shard) Settled() bool { return s.state == Forwarding && s.settled && !s.strays() }

// checkSettled is invariant 13.
func (s *Shard) checkSettled() error {
	if away := s.state == Forwarding; s.settled && !away || len(s.owed) > 0 && (!away || s.settled) {
		return fmt.Errorf("shard %v: invariant 13: %v, settled %v, and %d senders have yet to flush", s.id, s.state, s.settled, len(s.owed))
	}
	return nil
}
