package region

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// GateTimeout is how long a sender's direct calls wait for its Flush by way of
// the old home. It only passes when the old home is neither gone nor answering.
const GateTimeout = 2 * time.Second

// maxFlushed bounds the flushes remembered for gates that have not come yet.
const maxFlushed = 1024

// path is a sender, the old home that its older calls pass through, and the
// placement that made the sender turn away from there.
type path struct {
	sender, via transport.Address
	epoch       placement.Epoch
}

// A Flush has passed through Via on behalf of Sender, when it learnt of Epoch.
type Flush struct {
	Sender transport.Peer
	Via    transport.Peer
	Epoch  placement.Epoch
}

// gate holds one sender's direct calls until its older ones have come through.
type gate struct {
	path
	since time.Time
	held  queue
}

// gates are few and short-lived, so lists do.
type gates struct {
	closed  []*gate
	flushed []Flush // flushes that came before their gate
	cut     []path  // timed out: what still comes this way is refused
}

func (g *gates) held() (n int) {
	for _, c := range g.closed {
		n += c.held.n
	}
	return n
}

// pass holds the call if its sender's gate is closed. held is false when the
// call may go on.
func (g *gates) pass(c *Call, limit int) (v Verdict, held bool) {
	if !c.Via.IsZero() {
		late := func(p path) bool { return p.sender == c.Sender.Address && p.via == c.Via }
		return Moved, slices.ContainsFunc(g.cut, late)
	}
	for _, t := range g.closed {
		if t.sender != c.Sender.Address {
			continue
		}
		if t.held.n >= limit {
			return Overloaded, true
		}
		t.held.push(c)
		return Queued, true
	}
	return Run, false
}

func (g *gates) filter(drop func(*Call) bool) bool {
	for _, t := range g.closed {
		if len(t.held.filter(drop)) > 0 {
			return true
		}
	}
	return false
}

func (g *gates) find(look func(*queue) *Call) *Call {
	for _, t := range g.closed {
		if c := look(&t.held); c != nil {
			return c
		}
	}
	return nil
}

// CloseGate holds the sender's direct calls until its Flush came by way of the
// old home, if it has not come already.
func (s *Shard) CloseGate(sender, via transport.Address, epoch placement.Epoch, at time.Time) {
	p := path{sender, via, epoch}
	came := func(f Flush) bool { return f.path() == p }
	if i := slices.IndexFunc(s.gates.flushed, came); i >= 0 {
		s.gates.flushed = slices.Delete(s.gates.flushed, i, i+1)
		return
	}
	for _, t := range s.gates.closed {
		if t.path == p {
			return
		}
	}
	s.gates.closed = append(s.gates.closed, &gate{path: p, since: at})
}

func (f Flush) path() path { return path{f.Sender.Address, f.Via.Address, f.Epoch} }

// Flushed opens the sender's gate, or remembers that it need not close. Where
// the shard has left again the Flush must follow it: pass is true and the driver
// sends it on to Successor.
func (s *Shard) Flushed(f Flush, now uint32, at time.Time) (fx Effects, pass bool) {
	if s.state == Forwarding {
		return Effects{}, true
	}
	for i, t := range s.gates.closed {
		if t.path == f.path() {
			s.gates.closed = slices.Delete(s.gates.closed, i, i+1)
			return s.reopen(&t.held, now, at), false
		}
	}
	if len(s.gates.flushed) == maxFlushed {
		s.gates.flushed = s.gates.flushed[1:]
	}
	s.gates.flushed = append(s.gates.flushed, f)
	return Effects{}, false
}

// OpenGates opens the gates whose old home is gone, and those that have waited
// for GateTimeout; what still comes through those is refused, for it would be
// out of order.
func (s *Shard) OpenGates(gone func(transport.Address) bool, now uint32, at time.Time) Effects {
	var all queue
	s.gates.closed = slices.DeleteFunc(s.gates.closed, func(t *gate) bool {
		late := at.Sub(t.since) >= GateTimeout
		if !late && !gone(t.via) {
			return false
		}
		if late {
			s.gates.cut = append(s.gates.cut, t.path)
		}
		all.take(&t.held)
		return true
	})
	return s.reopen(&all, now, at)
}

// Gated tells whether any gate is closed, so that OpenGates must be called again.
func (s *Shard) Gated() bool { return len(s.gates.closed) > 0 }

// reopen delivers what a gate held and begins the move that waited for it.
func (s *Shard) reopen(held *queue, now uint32, at time.Time) Effects {
	var fx Effects
	s.redeliver(held, now, at, &fx)
	if s.pending != nil && len(s.gates.closed) == 0 {
		m := *s.pending
		s.pending = nil
		more := s.BeginMove(m.to, m.epoch)
		fx.Drained = more.Drained
	}
	return fx
}
