package coordinator

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type phase uint8

const (
	// moving: the old home is asked to move the shard; the new home will report that it is open.
	moving phase = iota + 1
	// askingNew: the old home gave up; the new home is asked to end the move.
	askingNew
	// askingOld: the new home is gone; the old home is asked whether it had sent Open.
	askingOld
	// ended: the shard has a home again, or will be allocated.
	ended
)

var phases = map[phase][]phase{
	moving:    {askingNew, askingOld, ended},
	askingNew: {ended},
	askingOld: {ended},
}

func (p phase) String() string {
	switch p {
	case moving:
		return "moving"
	case askingNew:
		return "asking the new home"
	case askingOld:
		return "asking the old home"
	case ended:
		return "ended"
	}
	return "unknown"
}

// A cause is the reason of a move. Running moves are bounded for each cause.
type cause uint8

const (
	balancing cause = iota + 1
	leaving
	retiring // to no node: the pool shrinks
)

// A move is one move of a shard from its home to another node.
type move struct {
	shard    *shard
	from, to transport.Address
	epoch    placement.Epoch // the new home's
	cause    cause
	phase    phase
	state    HeldState // the old home's last report; 0 means none
	reason   string    // why the old home gave up
	resendAt time.Time
	began    time.Time // when it began, or was restored here
	by       string    // why the move was chosen; "" means by the type's strategy
}

func (m *move) become(p phase) {
	if !slices.Contains(phases[m.phase], p) {
		invariant.Failf("move of %v: %v → %v", m.shard.id, m.phase, p)
	}
	m.phase = p
}

func (c *Coordinator) count(why cause) int {
	n := 0
	for _, m := range c.moves {
		if m.cause == why {
			n++
		}
	}
	return n
}

func (c *Coordinator) countOf(kind string) int {
	n := 0
	for _, m := range c.moves {
		if m.cause == balancing && m.shard.id.Kind == kind {
			n++
		}
	}
	return n
}

func (c *Coordinator) begin(s *shard, to transport.Address, why cause) { c.beginBy(s, to, why, "") }

// beginBy begins a move like begin, and records by, the move's reason in words.
func (c *Coordinator) beginBy(s *shard, to transport.Address, why cause, by string) {
	m := &move{shard: s, from: s.home, to: to, epoch: c.nextEpoch(s), cause: why, phase: moving, resendAt: c.now, began: c.now, by: by}
	s.move = m
	c.moves = append(c.moves, m)
	c.event(Event{What: MoveStarted, Shard: s.id, Node: m.from, Peer: to, Epoch: m.epoch, Reason: by})
}

func (c *Coordinator) end(m *move) {
	m.become(ended)
	m.shard.move = nil
	c.moves = slices.DeleteFunc(c.moves, func(o *move) bool { return o == m })
	c.plan = true
}

func (c *Coordinator) commit(m *move) {
	c.end(m)
	c.set(m.shard, m.to, m.epoch)
	m.shard.why = fmt.Sprintf("it moved there from %s, %s", m.from.Name, c.causeOf(m))
	c.event(Event{What: MoveCommitted, Shard: m.shard.id, Node: m.from, Peer: m.to, Epoch: m.epoch, Reason: m.by})
}

// resume lets the old home keep the shard, under an epoch above the move's: the move's messages are
// then outdated.
func (c *Coordinator) resume(m *move, why string) {
	c.end(m)
	c.give(m.shard, m.from)
	m.shard.why = fmt.Sprintf("it stayed there, for its move to %s was given up: %s", m.to.Name, cmp.Or(m.reason, why))
	rest := c.config.RebalanceInterval
	if m.cause == leaving {
		rest = leaveRest
	}
	m.shard.rest = c.now.Add(rest)
	if strings.HasPrefix(m.by, byLoad) {
		m.shard.since = c.now // others move first: the next attempt may fail like this one
		c.types[m.shard.id.Kind].spent.refund(m.began, c.now, c.hour())
	}
	if c.planAt.IsZero() || m.shard.rest.Before(c.planAt) {
		c.planAt = m.shard.rest
	}
	c.event(Event{What: MoveResumed, Shard: m.shard.id, Node: m.from, Peer: m.to, Epoch: m.shard.epoch, Reason: why})
}

// promote gives the shard to the new home, because the old one is gone. The new home opens the
// shard with the prepared state.
func (c *Coordinator) promote(m *move) {
	c.end(m)
	c.give(m.shard, m.to)
	m.shard.why = fmt.Sprintf("it was moving there when %s was lost", m.from.Name)
	c.event(Event{What: MovePromoted, Shard: m.shard.id, Node: m.from, Peer: m.to, Epoch: m.shard.epoch, Reason: "the old home is gone"})
}

func (c *Coordinator) lose(m *move, why string) {
	c.end(m)
	c.give(m.shard, transport.Address{})
	gone := m.to
	if m.cause == retiring {
		gone = m.from
	}
	m.shard.why = fmt.Sprintf("it was lost with %s", gone.Name)
	c.event(Event{What: HomeLost, Shard: m.shard.id, Node: gone, Epoch: m.shard.epoch, Reason: why})
}

func (c *Coordinator) reapMoves() {
	for _, m := range slices.Clone(c.moves) {
		from, to := c.alive(m.from), c.alive(m.to)
		switch {
		case !from && m.cause == retiring:
			c.lose(m, "its home is gone")
		case !from && !to:
			c.lose(m, "both homes are gone")
		case !from:
			c.promote(m)
		case m.cause == retiring:
		case !to && m.phase == askingNew:
			c.resume(m, "the old home gave up, then the new home was lost")
		case !to && m.phase == moving:
			// Only the old home knows whether Open was sent: its last report may be older
			// than a Ready that came since.
			m.become(askingOld)
			m.resendAt = c.now
		}
	}
}

// reapShards takes shards from lost homes. They are allocated again in the same step.
func (c *Coordinator) reapShards() {
	lost := map[transport.Address]int{}
	for _, name := range c.names {
		k := c.types[name]
		for i := range k.shards {
			s := &k.shards[i]
			if s.home.IsZero() || c.alive(s.home) {
				continue
			}
			lost[s.home]++
			s.why = fmt.Sprintf("it was lost with %s", s.home.Name)
			c.give(s, transport.Address{})
		}
	}
	for _, a := range slices.SortedFunc(maps.Keys(lost), transport.Address.Compare) {
		c.event(Event{What: HomeLost, Node: a, Count: lost[a], Reason: "down or removed"})
	}
}

func (c *Coordinator) resendMoves() {
	for _, m := range c.moves {
		if c.now.Before(m.resendAt) {
			continue
		}
		m.resendAt = c.now.Add(c.config.ResendInterval)
		switch m.phase {
		case moving:
			c.send(m.from, MoveBegin{c.config.Term, m.shard.id, m.to, m.shard.epoch, m.epoch})
		case askingNew:
			c.send(m.to, MoveCancel{c.config.Term, m.shard.id, m.epoch})
		case askingOld:
			c.send(m.from, MoveCancel{c.config.Term, m.shard.id, m.epoch})
		case ended:
			invariant.Failf("move of %v has ended and is still on the books", m.shard.id)
		}
	}
}

func (c *Coordinator) moveOf(id placement.ShardID, e placement.Epoch) *move {
	s := c.shard(id)
	if s == nil || s.move == nil || s.move.epoch != e {
		return nil
	}
	return s.move
}

func (c *Coordinator) onMoveStatus(from transport.Address, r MoveStatus) {
	m := c.moveOf(r.ShardID, r.Epoch)
	if m == nil || from != m.from {
		return
	}
	m.state = r.State
	if m.phase == askingOld && r.State == Forwarding {
		c.lose(m, fmt.Sprintf("%v was lost after it had taken the shard over", m.to))
	}
}

// onMoveDone commits the move in any phase, because the sender has opened the shard.
func (c *Coordinator) onMoveDone(from transport.Address, r MoveDone) {
	m := c.moveOf(r.ShardID, r.Epoch)
	switch {
	case m != nil && from == m.to:
		c.commit(m)
		return
	case m != nil && m.cause == retiring && from == m.from:
		c.retired(m)
		return
	}
	c.send(from, TableStatus{c.version()})
}

// onMoveAborted asks the new home to drop the prepared shard. Otherwise the old home could resume,
// answer calls and die; adopting the older prepared state would then undo these calls.
func (c *Coordinator) onMoveAborted(from transport.Address, r MoveAborted) {
	m := c.moveOf(r.ShardID, r.Epoch)
	switch {
	case m == nil || from != m.from:
		c.send(from, TableStatus{c.version()})
	case m.cause == retiring:
		c.resume(m, r.Reason)
	case m.phase == moving:
		m.become(askingNew)
		m.resendAt, m.reason = c.now, r.Reason
		c.event(Event{What: MoveCancelling, Shard: r.ShardID, Node: m.from, Peer: m.to, Epoch: m.epoch, Reason: r.Reason})
	case m.phase == askingOld:
		c.resume(m, r.Reason)
	}
}

func (c *Coordinator) onMoveCancelled(from transport.Address, r MoveCancelled) {
	m := c.moveOf(r.ShardID, r.Epoch)
	switch {
	case m == nil:
		c.send(from, TableStatus{c.version()})
	case m.phase == askingNew && from == m.to:
		c.resume(m, "the old home gave up")
	case m.phase == askingOld && from == m.from:
		c.resume(m, "the new home was lost")
	}
}

func (c *Coordinator) causeOf(m *move) string {
	k := c.types[m.shard.id.Kind]
	switch {
	case m.by != "":
		return m.by
	case m.cause == retiring:
		return "for the pool became smaller"
	case m.cause == leaving:
		return fmt.Sprintf("for %s leaves, or does not host the type any more", m.from.Name)
	case k.pins.at(m.shard.id.Shard) == m.to.Name:
		return "by a pin (PinShards)"
	}
	return "by " + c.place(k).String()
}

// Owing returns the reachable members, sorted by address and without this node, from which this
// coordinator needs an immediate answer: a registration, or the state of a move to be cancelled.
// The coordinator asks them repeatedly. Shards have no home while one of these members does not
// answer. If it does not answer for long, the driver decides about it.
func (c *Coordinator) Owing() []transport.Address {
	var nodes []transport.Address
	owes := func(a transport.Address) {
		m := c.members[a]
		if a != c.config.Self && m != nil && m.alive() && !m.Unreachable && !slices.Contains(nodes, a) {
			nodes = append(nodes, a)
		}
	}
	if c.superseded {
		return nil
	}
	for _, a := range c.order {
		if c.members[a].awaited() {
			owes(a)
		}
	}
	for _, m := range c.moves {
		switch m.phase {
		case askingNew:
			owes(m.to)
		case askingOld:
			owes(m.from)
		case moving, ended:
		}
	}
	slices.SortFunc(nodes, transport.Address.Compare)
	return nodes
}
