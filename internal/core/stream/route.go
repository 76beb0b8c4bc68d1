package stream

import (
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// RouteState is what a sender knows of a shard's home.
type RouteState uint8

// The states of a route.
const (
	// Unknown: the shard has no known home. Calls are held until the table names one.
	Unknown RouteState = iota
	// Known: calls go to Home under Epoch.
	Known
	// Stopped: the home changed while envelopes to the old home were not acknowledged. Calls are
	// held until these envelopes are acknowledged, so that those that the old home refuses are sent
	// first.
	Stopped
)

// String returns the name of the state.
func (s RouteState) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case Known:
		return "known"
	case Stopped:
		return "stopped"
	}
	return fmt.Sprintf("RouteState(%d)", uint8(s))
}

// An Outgoing is an ask or a tell that waits at its sender. Driver is the driver's value for
// completing the call.
type Outgoing struct {
	Envelope wire.Envelope
	Driver   any
}

// A Route is one shard as one sender sees it. It is not safe for concurrent use.
//
// Three rules keep the sender's calls of each entity in order. When a route leaves a home, it sends
// a Flush behind the last envelope for that home. While an envelope to that home is not
// acknowledged, the route is Stopped. When the route leaves Stopped, it sends the new home three
// things in turn: a Barrier, which makes the new home wait for the Flush; the refused envelopes, in
// the order of sending; and the held calls, in the order in which they were made.
type Route struct {
	State RouteState
	Home  transport.Address // the home if Known, the old home if Stopped
	Epoch placement.Epoch
	// LastSeq is the highest sequence sent to Home for this shard, the Barrier's
	// included; 0 means none.
	LastSeq uint64

	via     transport.Address // the home before Home; the last home if Unknown
	left    placement.Epoch   // the epoch under which calls went to via; 0 means via has departed
	lost    transport.Address // the last home after via, which has departed; zero means none
	next    transport.Address // the home to which a Stopped route goes; zero means not known
	nextAt  placement.Epoch
	flushed placement.Epoch // the epoch for which a Flush was already sent
	refused []Outgoing
	held    []Outgoing
}

// A Step is the driver's work after a change of a route, in this order:
//
//  1. If FlushTo is set, append a Flush to the session with FlushTo. The Flush names Home, Epoch
//     and Left, the epoch under which calls went to FlushTo until now. If the route is Stopped, set
//     its LastSeq to the sequence of the Flush.
//  2. If Go is set, append to the new home's session a Barrier for each of Via, then the calls in
//     Deliver. Only then may other calls go to the new home.
//  3. If Ask is set, find out the shard's home.
type Step struct {
	FlushTo transport.Address // zero: no Flush
	Home    transport.Address
	Epoch   placement.Epoch
	Left    placement.Epoch
	Go      bool
	Via     []Via
	Deliver []Outgoing
	Ask     bool
}

// A Via is a former home through which older calls may come. Departed reports that it has departed.
type Via struct {
	transport.Address
	Departed bool
}

// Hold keeps a call until the route is Known. It must not be called while the route is Known. ask
// is true if the driver must find out the shard's home.
func (r *Route) Hold(o Outgoing) (ask bool) {
	r.held = append(r.held, o)
	return r.State == Unknown
}

// HoldWithin keeps a call as Hold does, but at most limit waiting calls. It drops and returns the
// calls that have waited longest. With a limit of 0 it returns o itself.
func (r *Route) HoldWithin(o Outgoing, limit int) (dropped []Outgoing) {
	r.held = append(r.held, o)
	for r.Held() > limit {
		oldest := &r.held
		if len(r.refused) > 0 {
			oldest = &r.refused
		}
		dropped = append(dropped, (*oldest)[0])
		(*oldest)[0] = Outgoing{}
		*oldest = (*oldest)[1:]
	}
	return dropped
}

// BeginAnew forgets every placement, because the cluster was founded again. The new cluster counts
// epochs from the beginning, so its placements cannot be compared with earlier ones. Waiting calls
// are kept, in order. They need no Barrier at their new home: no earlier call of this sender can be
// on its way there.
func (r *Route) BeginAnew() Step {
	*r = Route{held: append(r.refused, r.held...)}
	return Step{Ask: true}
}

// Next returns the home to which a Stopped route goes when the old home has acknowledged all
// envelopes; zero if unknown.
func (r *Route) Next() transport.Address { return r.next }

// Held returns the number of calls that wait in the route.
func (r *Route) Held() int { return len(r.held) + len(r.refused) }

// Holds reports whether the function such returns true for one of the waiting calls.
func (r *Route) Holds(such func(Outgoing) bool) bool {
	return slices.ContainsFunc(r.refused, such) || slices.ContainsFunc(r.held, such)
}

// Drop removes and returns the waiting calls for which gone returns true.
func (r *Route) Drop(gone func(Outgoing) bool) (out []Outgoing) {
	keep := func(list []Outgoing) []Outgoing {
		kept := list[:0]
		for _, o := range list {
			if gone(o) {
				out = append(out, o)
			} else {
				kept = append(kept, o)
			}
		}
		clear(list[len(kept):])
		return kept
	}
	r.refused, r.held = keep(r.refused), keep(r.held)
	return out
}

// Departed is the value of acked in [Route.Learn] for a home that has departed.
const Departed = ^uint64(0)

// Learn handles a newer placement, from the table or from a Moved answer. acked is the highest
// sequence that the old home has acknowledged on the shard's lane, or Departed. local means that
// the old home is this process, whose own queue keeps the order.
func (r *Route) Learn(home transport.Address, epoch placement.Epoch, acked uint64, local bool) Step {
	known := r.Epoch // in Unknown, its home refused, or has departed
	if r.State == Stopped {
		known = r.nextAt // at least Epoch, unless that was superseded
	}
	if epoch <= known {
		return Step{}
	}
	return r.Supersede(home, epoch, acked, local)
}

// Supersede handles a placement as Learn does, but accepts any epoch. It replaces a placement of an
// ended term by one from a later term's table, even if the replaced placement has the higher epoch.
func (r *Route) Supersede(home transport.Address, epoch placement.Epoch, acked uint64, local bool) Step {
	switch r.State {
	case Unknown:
		if home.IsZero() {
			return Step{}
		}
		r.next, r.nextAt = home, epoch
		var s Step
		if r.left > 0 { // older calls may be on their way from there: the new home must know where they end
			s.FlushTo, s.Home, s.Epoch, s.Left = r.via, home, epoch, r.left
		} else if r.via == home { // not departed after all, or begun anew
			r.via = transport.Address{}
		}
		return r.resolve(s, r.via, r.left, r.lost)
	case Known:
		r.next, r.nextAt = home, epoch
		if acked == Departed {
			return r.leaveDeparted()
		}
		s := r.leave()
		if !local && acked < r.LastSeq {
			r.State, r.flushed = Stopped, s.Epoch
			return s
		}
		if !local && r.LastSeq == 0 {
			return r.resolve(Step{}, transport.Address{}, 0, transport.Address{})
		}
		return r.resolve(s, r.Home, r.Epoch, transport.Address{}) // also without a known home: sent envelopes may be on their way through others
	default:
		r.next, r.nextAt = home, epoch
		return Step{}
	}
}

// Refused takes back an envelope that the node from received and did not execute. home and epoch
// are the shard's home and epoch as that node knows them; both are zero if it knows none.
func (r *Route) Refused(from transport.Address, o Outgoing, home transport.Address, epoch placement.Epoch) {
	if r.State == Known && r.Home == from {
		r.State = Stopped
		r.next, r.nextAt = transport.Address{}, r.Epoch
	}
	if epoch > r.nextAt && !home.IsZero() {
		r.next, r.nextAt = home, epoch
	}
	r.refused = append(r.refused, o)
}

// Acked handles a higher acknowledgement in the session to a home.
func (r *Route) Acked(from transport.Address, acked uint64) Step {
	if r.State != Stopped || r.Home != from || acked < r.LastSeq {
		return Step{}
	}
	if acked == Departed {
		return r.leaveDeparted()
	}
	var s Step
	if r.flushed != r.nextAt {
		s = r.leave()
	}
	return r.resolve(s, r.Home, r.Epoch, transport.Address{}) // as in Learn
}

// leave returns a step with the Flush behind the envelopes sent to the old home. There is no Flush
// without a new home. A home that lost the shard and got it back gets a Flush too, because
// forwarded envelopes may be under way.
func (r *Route) leave() (s Step) {
	if !r.next.IsZero() {
		s.FlushTo, s.Home, s.Epoch, s.Left = r.Home, r.next, r.nextAt, r.Epoch
	}
	return s
}

// HomeDeparted handles the departure of a home that has left or was removed. unacknowledged are the
// envelopes for this shard that the home certainly did not execute, in order.
func (r *Route) HomeDeparted(departed transport.Address, unacknowledged []Outgoing) Step {
	if r.State == Unknown || r.Home != departed {
		if r.via == departed {
			r.left = 0
		}
		r.held = append(unacknowledged, r.held...)
		return r.sendHeld()
	}
	r.refused = append(r.refused, unacknowledged...)
	if r.next == departed {
		r.next = transport.Address{}
	}
	if r.State == Known {
		r.next, r.nextAt = transport.Address{}, r.Epoch
	}
	return r.leaveDeparted()
}

// leaveDeparted leaves a home that has departed. The Flush goes to the home before it.
func (r *Route) leaveDeparted() (s Step) {
	via, left, lost := r.before(r.Home)
	if left > 0 && !r.next.IsZero() {
		s.FlushTo, s.Home, s.Epoch, s.Left = via, r.next, r.nextAt, left
	}
	return r.resolve(s, via, left, lost)
}

// sendHeld delivers calls that wait although the route is Known. They came back from a home of the
// time before the cluster was founded again.
func (r *Route) sendHeld() Step {
	if r.State != Known || r.Held() == 0 {
		return Step{}
	}
	s := Step{Go: true, Deliver: append(r.refused, r.held...)}
	r.refused, r.held = nil, nil
	return s
}

// before returns the homes from which older calls may still come when the given home has departed:
// via and lost. Calls that the departed home did not handle go back to via. left is the epoch under
// which calls went to via; 0 means that via has departed too. lost is a home after via that has
// departed; zero means none.
func (r *Route) before(departed transport.Address) (via transport.Address, left placement.Epoch, lost transport.Address) {
	switch {
	case r.LastSeq == 0: // nothing was sent there, not even the Barrier: earlier calls are where they were
		return r.via, r.left, r.lost
	case r.left > 0:
		return r.via, r.left, departed
	}
	return departed, 0, transport.Address{}
}

// resolve changes the route to the next home, if known. Envelopes sent to via under the epoch left
// may still come from there; a zero via means none. lost is a departed home after via.
func (r *Route) resolve(s Step, via transport.Address, left placement.Epoch, lost transport.Address) Step {
	r.LastSeq, r.flushed, r.via, r.left, r.lost = 0, 0, via, left, lost
	if r.next.IsZero() {
		r.State, r.Home, r.Epoch = Unknown, transport.Address{}, min(r.Epoch, r.nextAt)
		r.held = append(r.refused, r.held...)
		r.refused = nil
		s.Ask = true
		return s
	}
	s.Go = true
	for _, v := range []Via{{via, left == 0}, {lost, true}} {
		if !v.IsZero() {
			s.Via = append(s.Via, v)
		}
	}
	s.Deliver = append(r.refused, r.held...)
	r.State, r.Home, r.Epoch = Known, r.next, r.nextAt
	r.next, r.refused, r.held = transport.Address{}, nil, nil
	return s
}
