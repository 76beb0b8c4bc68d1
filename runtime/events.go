package shard

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// An EventKind is the kind of change that a [ClusterEvent] reports.
type EventKind int

// The kinds of events. The first and the last three are about the whole cluster, the others about
// one member.
const (
	// EventView brings the whole cluster as the node sees it, in View. It is the first event, and
	// comes again after events were dropped; Missed is their number.
	EventView EventKind = iota
	// The kinds down to EventQuarantined are about Member. A status is left out if the member
	// passed through it before this node saw it.
	EventJoined      // admitted
	EventWeaklyUp    // serves clients although not all members agree
	EventUp          // is a full member
	EventLeaving     // gives its shards and singletons away
	EventExiting     // has given everything away
	EventDowned      // was given up by the others, or told to stop
	EventRemoved     // is no longer a member; Member.Status is its last one
	EventUnreachable // cannot be heard; see Member.Evidence
	EventReachable   // is heard again
	EventQuarantined // did not answer the coordinator; stays unreachable until it is downed
	// EventLeader brings the new Leader, which is zero if no member can lead.
	EventLeader
	// EventConverged means that all members now agree on the view.
	EventConverged
	// EventDiverged means that the members no longer agree on the view; Why says why.
	EventDiverged
)

var eventNames = [...]string{
	"view", "joined", "weakly up", "up", "leaving", "exiting", "downed", "removed", "unreachable", "reachable",
	"quarantined", "leader", "converged", "diverged",
}

// String names the kind.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(eventNames) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return eventNames[k]
}

// A ClusterEvent is one change of the cluster as a node sees it.
type ClusterEvent struct {
	Kind   EventKind         // the kind of the change
	Time   time.Time         // when this node saw it
	Member Member            // set in events about one member
	Leader transport.Address // set in EventLeader
	Why    string            // set in EventDiverged
	View   ClusterView       // set in EventView
	Missed int               // set in EventView: the number of events dropped since the previous event
}

// String returns a text such as "up web-1#00c0ffee00c0ffee".
func (e ClusterEvent) String() string {
	switch e.Kind {
	case EventView:
		if e.Missed > 0 {
			return fmt.Sprintf("view of %d members after %d events were missed", len(e.View.Members), e.Missed)
		}
		return fmt.Sprintf("view of %d members", len(e.View.Members))
	case EventLeader:
		return "leader " + e.Leader.String()
	case EventConverged:
		return "converged"
	case EventDiverged:
		return "diverged: " + e.Why
	case EventUnreachable:
		return fmt.Sprintf("unreachable %v (%s)", e.Member.Address, e.Member.Evidence)
	}
	return e.Kind.String() + " " + e.Member.Address.String()
}

const eventBuffer = 256

type events struct {
	mu   sync.Mutex
	view *membership.View // the view after all events that were published; nil means that there is none yet
	lost []string         // names of members that were lost, until takeLost
	subs map[*subscription]bool
}

type subscription struct {
	queue  []ClusterEvent
	stale  bool // the next event is the view, because it is the first or events were dropped
	missed int
	signal chan struct{} // filled when the reader should look again
}

func (v *events) current() *membership.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.view
}

// takeLost returns the names of the members that were lost since the last call.
func (v *events) takeLost() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	lost := v.lost
	v.lost = nil
	return lost
}

func (v *events) subscribe() *subscription {
	s := &subscription{stale: true, signal: make(chan struct{}, 1)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.subs == nil {
		v.subs = map[*subscription]bool{}
	}
	v.subs[s] = true
	return s
}

func (v *events) unsubscribe(s *subscription) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.subs, s)
}

// next returns the reader's next event. An EventView is built only now, so it includes the events
// dropped before.
func (v *events) next(s *subscription, self transport.Address) (e ClusterEvent, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case s.stale:
		e = ClusterEvent{Kind: EventView, Time: time.Now(), View: ClusterView{Self: self}, Missed: s.missed}
		if v.view != nil {
			e.View = clusterView(v.view)
		}
		s.stale, s.missed = false, 0
		return e, true
	case len(s.queue) > 0:
		e, s.queue = s.queue[0], s.queue[1:]
		return e, true
	}
	return ClusterEvent{}, false
}

func (v *events) empty(s *subscription) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !s.stale && len(s.queue) == 0
}

func (v *events) publish(view *membership.View, list []membership.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.view = view
	for _, m := range list {
		if d, ok := m.(membership.MemberDowned); ok && d.Evidence != membership.NoEvidence && d.Why == "" && len(v.lost) < eventBuffer {
			v.lost = append(v.lost, d.Member.Name)
		}
	}
	if len(v.subs) == 0 {
		return
	}
	now := time.Now()
	for _, m := range list {
		e, ok := clusterEvent(m)
		if !ok {
			continue
		}
		e.Time = now
		for s := range v.subs {
			s.add(e)
		}
	}
}

func (s *subscription) add(e ClusterEvent) {
	switch {
	case s.stale:
		s.missed++
	case len(s.queue) == eventBuffer:
		s.stale, s.missed, s.queue = true, len(s.queue)+1, nil
	default:
		s.queue = append(s.queue, e)
	}
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// clusterEvent converts an event for users. ok is false for events that only the driver needs.
func clusterEvent(m membership.Event) (e ClusterEvent, ok bool) {
	member := func(kind EventKind, m membership.Member) (ClusterEvent, bool) {
		return ClusterEvent{Kind: kind, Member: memberOf(m, true, membership.NoEvidence)}, true
	}
	switch m := m.(type) {
	case membership.MemberJoined:
		return member(EventJoined, m.Member)
	case membership.MemberWeaklyUp:
		return member(EventWeaklyUp, m.Member)
	case membership.MemberUp:
		return member(EventUp, m.Member)
	case membership.MemberLeaving:
		return member(EventLeaving, m.Member)
	case membership.MemberExiting:
		return member(EventExiting, m.Member)
	case membership.MemberDowned:
		return member(EventDowned, m.Member)
	case membership.MemberRemoved:
		return member(EventRemoved, m.Member)
	case membership.UnreachableMember:
		return ClusterEvent{Kind: EventUnreachable, Member: memberOf(m.Member, false, m.Evidence)}, true
	case membership.ReachableMember:
		return member(EventReachable, m.Member)
	case membership.MemberQuarantined:
		return ClusterEvent{Kind: EventQuarantined, Member: memberOf(m.Member, false, membership.EvidenceSilent)}, true
	case membership.LeaderChanged:
		return ClusterEvent{Kind: EventLeader, Leader: m.Leader}, true
	case membership.ConvergedChanged:
		if m.Converged {
			return ClusterEvent{Kind: EventConverged}, true
		}
		return ClusterEvent{Kind: EventDiverged, Why: m.Reason}, true
	}
	return ClusterEvent{}, false
}

// Cluster returns the cluster as this node sees it now. Its cost is proportional to the number of
// members; [Node.Events] yields only changes.
func (n *Node) Cluster() ClusterView {
	v := n.events.current()
	if v == nil {
		return ClusterView{Self: n.driver.Local.Address}
	}
	return clusterView(v)
}

// Events returns the changes of the cluster as this node sees them: first an EventView, then every
// change in order. The loop ends when ctx ends. If the node stops, the loop ends after the last
// event ([Node.Err] has the reason). A loop may begin before Start. Any number of loops may run.
//
//	for e := range node.Events(ctx) {
//		log.Println(e)
//	}
//
// A reader never delays the node. If more than 256 events wait for the reader, they are dropped.
// The loop then goes on with an EventView, whose Missed is the number of dropped events.
func (n *Node) Events(ctx context.Context) iter.Seq[ClusterEvent] {
	return func(yield func(ClusterEvent) bool) {
		s := n.events.subscribe()
		defer n.events.unsubscribe(s)
		for ctx.Err() == nil {
			if e, ok := n.events.next(s, n.driver.Local.Address); ok {
				if !yield(e) {
					return
				}
				continue
			}
			select {
			case <-s.signal:
			case <-ctx.Done():
			case <-n.done:
				if n.events.empty(s) {
					return
				}
			}
		}
	}
}
