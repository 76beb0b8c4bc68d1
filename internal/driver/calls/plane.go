package calls

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// ByeGrace is how long this process waits for goodbyes on the lanes of a member that left
// gracefully. After that, envelopes that the member has not acknowledged count as lost.
const ByeGrace = 3 * time.Second

// DismissAfter is how long a process that has left waits for senders' flushes, and then for a shard
// table with homes for the late calls that it holds.
const DismissAfter = time.Second

// leaveEvery is the interval at which Leave checks whether a step has ended.
const leaveEvery = 2 * time.Millisecond

// WhyDropped explains the unknown outcome of calls on a session that the peer has dropped.
const WhyDropped = "dropped its state of this connection, which was away for too long"

// A Plane handles calls that were under way to departed processes, and envelopes from other
// processes except calls and answers.
type Plane struct {
	env       Env
	gaveBack  atomic.Bool // calls have come back from a departed peer
	departing departing
}

// departing has the processes whose departure PeerGone is handling.
type departing struct {
	mu  sync.Mutex
	all []transport.Address
}

func (d *departing) add(a transport.Address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, a)
}

func (d *departing) remove(a transport.Address) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.all, a)
	d.all = slices.Delete(d.all, i, i+1)
}

// Departs reports whether PeerGone is handling the departure of a process.
func (p *Plane) Departs(a transport.Address) bool {
	p.departing.mu.Lock()
	defer p.departing.mu.Unlock()
	return slices.Contains(p.departing.all, a)
}

// Init sets the process. It is called once, before any other method.
func (p *Plane) Init(env Env) { p.env = env }

// Receive handles an envelope from another process that is not an ask, a tell or an answer.
func (p *Plane) Receive(from Session, lane int, e *wire.Envelope) {
	switch e.Type {
	case 0: // a call that was withdrawn
	case wire.TypeRefusal:
		p.refused(from, e)
	case wire.TypeCancel:
		if s, ok := p.env.Shard(e.Kind, e.Shard); ok {
			s.Cancel(from.Peer().Address, string(e.Entity), e.ID)
		}
	case wire.TypeFlush:
		p.flush(from, lane, e)
	default:
		p.moveStep(from, e)
	}
}

func (p *Plane) refused(from Session, e *wire.Envelope) {
	if e.Code != wire.CodeMoved {
		if e.ID == 0 || !p.env.Calls().Complete(e.ID, Result{Code: e.Code, Text: string(e.Text)}) {
			p.env.TellRefused(from, e)
		}
		return
	}
	sent, ok := from.Find(e.Seq)
	if !ok {
		p.env.Count(Ignored)
		return
	}
	if r := p.env.Route(sent.Kind, sent.Shard); r != nil {
		p.env.Count(Retried)
		r.Refused(from.Peer().Address, sent, e.Node.Address, placement.Epoch(e.Epoch))
	}
}

// flush passes a Flush to the shard. The shard forwards the Flush to the new home, behind the calls
// of the same sender that it has forwarded.
func (p *Plane) flush(from Session, lane int, e *wire.Envelope) {
	from.AckSoon()
	f := region.Flush{
		Sender: from.Peer(), Via: p.env.Self(), Epoch: placement.Epoch(e.Epoch), Hop: placement.Epoch(e.Hop), To: e.Node.Address,
		Lost: !e.Node.IsZero() && p.env.Parted(e.Node.Address),
	}
	if s, ok := p.env.Shard(e.Kind, e.Shard); ok {
		s.Flush(f)
		return
	}
	if e.Node.IsZero() {
		return
	}
	if to, ok := p.env.Session(e.Node, lane); ok {
		to.Post(&wire.Envelope{Type: wire.TypeFlushed, Kind: e.Kind, Shard: e.Shard, Epoch: e.Epoch, Node: f.Sender, Via: f.Via, Hop: e.Epoch})
	}
}

func (p *Plane) moveStep(from Session, e *wire.Envelope) {
	s, ok := p.env.Shard(e.Kind, e.Shard)
	if !ok && e.Type == wire.TypeInit {
		from.Post(&wire.Envelope{
			Type: wire.TypeReject, Kind: e.Kind, Shard: e.Shard, Epoch: e.Epoch,
			Text: []byte(p.env.Self().Name + " does not host the type"),
		})
	}
	if !ok || !s.MoveStep(from, e) {
		p.env.Count(Ignored)
	}
}

// Refuse counts the refusal of an ask or a tell, whose envelope has the sequence seq. It returns
// the answer to send and the session on which to send it; both are nil if there is no answer. The
// caller must append the answer before it acknowledges the envelope, because the sender forgets an
// acknowledged envelope.
func (p *Plane) Refuse(from Session, lane int, e *wire.Envelope, seq uint64, r shardhost.Refusal) (to Session, answer *wire.Envelope) {
	p.env.Refused(r.Code)
	answer, direct, ok := r.Answer(e, seq)
	if !ok {
		p.env.Lost(e, LostRefused)
		return nil, nil
	}
	if direct {
		return from, answer
	}
	if to, ok = p.env.Session(e.Node, lane); !ok {
		p.env.Count(NoPeer)
		return nil, nil
	}
	return to, answer
}

// Learn updates the shard's route if an answer names the shard's new home.
func (p *Plane) Learn(answer *wire.Envelope) {
	if answer.Code != wire.CodeMoved || answer.Epoch == 0 {
		return
	}
	if r := p.env.Route(answer.Kind, answer.Shard); r != nil {
		r.Learn(answer.Node.Address, placement.Epoch(answer.Epoch), false)
	}
}

// Answer passes an answer to its caller. It reports whether a caller waited for it.
func (p *Plane) Answer(e *wire.Envelope) bool {
	p.Learn(e)
	return p.env.Calls().Complete(e.ID, Result{Payload: e.Payload, Code: e.Code, Text: string(e.Text)})
}

// Withdraw withdraws a call whose caller has given up, if that is still possible. how is the stage
// that the call had reached. on is the session on which the call was sent; nil if it was not sent.
// If the call's turn may be running, Withdraw cancels it, also at a home to which the call was
// forwarded.
func (p *Plane) Withdraw(r *routing.Route, c *Call, id uint64, entity string) (how Withdrawal, on Session) {
	if r.Withdraw(id) {
		return WithdrawnUnsent, nil
	}
	shard, kind := r.Shard(), r.Kind()
	to, seq := c.SentOn()
	on, sent := to.(Session)
	if !sent {
		if s, ok := p.env.Shard(kind, shard.Shard); ok && s.Cancel(p.env.Self().Address, entity, id) {
			return WithdrawnQueued, nil
		}
		return WithdrawnBegun, nil
	}
	if on.Void(seq) {
		return WithdrawnUndelivered, on
	}
	cancel := &wire.Envelope{Type: wire.TypeCancel, ID: id, Kind: kind, Shard: shard.Shard, Entity: []byte(entity)}
	on.Post(cancel)
	p.cancelAtHome(r, on, cancel)
	return WithdrawnDelivered, on
}

// cancelAtHome sends a cancellation to the shard's current home too, because the former home may
// have forwarded the call.
func (p *Plane) cancelAtHome(r *routing.Route, sent Session, cancel *wire.Envelope) {
	t := r.Target()
	if t == nil {
		return
	}
	if home, ok := t.Session.(Session); ok && home.Peer().Address != sent.Peer().Address {
		home.Post(cancel)
	}
	if s, ok := p.env.Shard(cancel.Kind, cancel.Shard); ok && t.Local != nil {
		s.Cancel(p.env.Self().Address, string(cancel.Entity), cancel.ID)
	}
}

// Follow applies a newer shard table to a type's shards and routes. Each move makes a new table, so
// Follow skips entries that have not changed in this term and whose routes have targets.
func (p *Plane) Follow(old, t *placement.Table, kind string) {
	was, name, term := old.Type(kind), []byte(kind), t.Version().Term
	sameTerm := old.Version().Term == term
	for e := range t.Type(kind).All() {
		r := p.env.Route(name, e.Shard)
		if before, ok := was.Lookup(e.Shard); ok && sameTerm && before == e && r.Target() != nil {
			continue
		}
		if s, ok := p.env.Shard(name, e.Shard); ok {
			s.Place(e.Home, e.Epoch, term.Number)
		}
		r.Learn(e.Home, e.Epoch, false)
	}
}

// PeerGone handles the end of process a. If lane is AllLanes, process a was removed, and PeerGone
// closes all sessions with it. Otherwise process a has said goodbye on that lane, and PeerGone
// closes only the session on the lane. Calls that process a certainly did not run are sent to their
// shards' next homes. Calls that may have run fail with the code Lost.
func (p *Plane) PeerGone(a transport.Address, lane int, bye bool) {
	p.departing.add(a)
	defer p.departing.remove(a)
	left, ok := p.env.Close(a, lane, bye)
	if !ok {
		return
	}
	is := func(o transport.Address) bool { return o == a }
	// Calls that come back from the peer take another route, ahead of those held by barriers.
	back := returned{}
	for i := range left {
		p.takeBack(&left[i], back)
	}
	p.env.EachShard(lane, func(s Shard) { back.depart(s, is) })
	for i := range left {
		p.giveBack(&left[i])
	}
	p.env.EachShard(lane, func(s Shard) { s.OpenBarriers(is) })
	p.env.EachRoute(lane, func(r *routing.Route) { r.HomeDeparted(a, nil) })
	if lane != AllLanes {
		return
	}
	// A peer closes a lane only after answering or forwarding all its calls: those without an
	// answer run elsewhere.
	p.env.Calls().CompleteSent(func(s Carrier) bool {
		return s.Peer().Address == a && !s.(Session).SaidGoodbye()
	}, Result{Code: Lost, Lost: a})
}

// Replace begins a new session with the peer of session s, because the peer has dropped its side of
// s. It returns the new session, or nil if the peer has departed. If the peer is a member, the
// unanswered calls on s that the peer may have received fail with the code Lost. All other calls on
// s are sent again to their shards' homes. Replace does not replace the peer's sessions on other
// lanes.
func (p *Plane) Replace(s Session) Session {
	next, left := p.env.Renew(s)
	if left == nil {
		return next
	}
	back := returned{}
	p.takeBack(left, back)
	for shard := range back { //arch:order-free shards are independent
		back.depart(shard, func(transport.Address) bool { return false })
	}
	p.giveBack(left)
	if s.Peer().Client {
		return next
	}
	a := s.Peer().Address
	lost := p.env.Calls().CompleteSent(func(o Carrier) bool { return o == s },
		Result{Code: Lost, Lost: a, Text: WhyDropped})
	p.env.Renewed(left, lost)
	// Calls for the member's shards go on the new session. Homes of shards missing from the table
	// are requested.
	t := p.env.Table()
	p.env.EachRoute(left.Lane, func(r *routing.Route) {
		if !r.LeadsTo(a) {
			return
		}
		r.HomeDeparted(a, nil)
		if e, ok := t.Lookup(r.Shard()); ok && e.Home == a {
			r.Learn(a, e.Epoch, true)
		}
	})
	return next
}

func (p *Plane) giveBack(left *Left) {
	routing.GiveBack(remains{p.env, left}, left.Session.Peer().Address, left.Unacknowledged, left.Stopped)
}

// PeerBack sends calls again to the shards of a process that PeerGone took for removed. The shards'
// routes wait for newer placements, although the table is still right.
func (p *Plane) PeerBack(a transport.Address) {
	t := p.env.Table()
	p.env.EachRoute(AllLanes, func(r *routing.Route) {
		if e, ok := t.Lookup(r.Shard()); ok && e.Home == a {
			r.Returned(a, e.Epoch)
		}
	})
}

// BeginAnew closes the sessions with all processes except members, and forgets the homes of shards,
// because the cluster was founded again. Calls that may have run fail with the code Lost; all other
// calls wait for their shards' next homes.
func (p *Plane) BeginAnew(members map[transport.Address]bool) {
	// Routes come first. A route waiting for a departed home would otherwise go to the next home of
	// the former cluster, on a session that outlives this method.
	p.env.EachRoute(AllLanes, (*routing.Route).BeginAnew)
	for _, a := range p.env.Peers() {
		if !members[a] {
			p.env.Part(a)
		}
	}
	for _, a := range p.env.Peers() {
		if !members[a] {
			p.PeerGone(a, AllLanes, false)
		}
	}
	for a := range members { //arch:order-free each is forgiven by itself
		p.env.Forgive(a) // the process may come back to this incarnation
	}
	// Again, to request homes for calls that have come back meanwhile.
	p.env.EachRoute(AllLanes, (*routing.Route).BeginAnew)
}

// Homes returns the other processes to which this process's routes lead, each once. It leaves out
// processes that have left or were removed.
func (p *Plane) Homes() (all []transport.Address) {
	self := p.env.Self().Address
	p.env.EachRoute(AllLanes, func(r *routing.Route) {
		a := r.Home()
		if !a.IsZero() && a != self && !slices.Contains(all, a) {
			all = append(all, a)
		}
	})
	return slices.DeleteFunc(all, p.env.Parted)
}

// Needs reports whether a leaving process must still wait for one of its shards, or for the next
// home of a tell. Such a tell waits in a route, or was sent to a home that has left and may give
// the tell back. Needs ignores tells sent to other homes, because package node's Drain waits for
// their acknowledgements.
func (p *Plane) Needs() (needs bool) {
	p.env.EachShard(AllLanes, func(s Shard) { needs = needs || s.Needed() })
	p.env.EachRoute(AllLanes, func(r *routing.Route) {
		needs = needs || r.HoldsTells() || p.env.Parted(r.Home()) && r.Unacknowledged()
	})
	return needs
}

// PeerLeft ends the sessions with a member that left gracefully. It first waits ByeGrace, because
// the member may still send goodbyes.
func (p *Plane) PeerLeft(a transport.Address) {
	p.env.MarkLeft(a)
	p.env.After(ByeGrace, func() { p.PeerGone(a, AllLanes, false) })
}

// Leave ends the data plane of a process that has left the cluster, and then calls the function
// done. Before that, the lanes must not be closed: to a peer, a closed lane means that every
// acknowledged call was answered, or forwarded to a process that has it. The steps:
//
//  1. Wait until the peers have acknowledged what was sent, no sender owes a Flush, and no call
//     waits for a home. Calls may have come since Needs was last called. A forwarded call may still
//     wait at its next home, and only the Flush keeps the sender's later calls behind it.
//  2. From now on handle only answers and refusals. All other envelopes return to their senders.
//  3. Wait for acknowledgements, and for homes of the calls that arrived meanwhile or came back
//     from departed peers.
//  4. Refuse the calls that still wait, and wait until the refusals are acknowledged.
//
// When only flushes or homes are missing, a step ends after DismissAfter. All steps together take
// at most patience. The last DismissAfter of patience, but at most half of patience, is kept for
// steps 3 and 4.
func (p *Plane) Leave(patience time.Duration, done func()) {
	over := p.env.Now().Add(patience)
	p.await(over.Add(-min(DismissAfter, patience/2)), func(s Shard) bool { return s.Holds() || s.Owes() }, func() {
		p.env.StopReceiving()
		p.await(over, Shard.Holds, func() {
			p.Dismiss()
			p.await(over, func(Shard) bool { return false }, func() {
				p.Dismiss() // what came back meanwhile
				done()
			})
		})
	})
}

// await waits until the peers have acknowledged what was sent, and the function waits returns false
// for each shard. It stops waiting for shards after DismissAfter, and stops altogether at the time
// over. Then it calls the callback (then). It also waits for acknowledgements of envelopes sent
// since it began, but only if they may be held or returned calls of shards, so that other
// goroutines' tells do not prolong the wait.
func (p *Plane) await(over time.Time, waits func(Shard) bool, then func()) {
	unacknowledged, more := p.env.Unacknowledged(), true
	homes := p.env.Now().Add(DismissAfter)
	var check func()
	check = func() {
		now := p.env.Now()
		more = more || p.gaveBack.Swap(false)
		open := unacknowledged()
		if !open && more {
			unacknowledged, more = p.env.Unacknowledged(), false
			open = unacknowledged()
		}
		if !open && now.Before(homes) {
			p.env.EachShard(AllLanes, func(s Shard) { open = open || waits(s) })
			more = open // a call that waits no more may have been forwarded
		}
		if !open || !now.Before(over) {
			then()
			return
		}
		p.env.After(leaveEvery, check)
	}
	check()
}

// Dismiss refuses the calls that shards still hold after the process has left.
func (p *Plane) Dismiss() { p.env.EachShard(AllLanes, Shard.Dismiss) }
