package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// closed is the state of a shard that is not here.
const closed HeldState = 0

// abortAfter is how long a simulated old home waits for turns and for Ready.
const abortAfter = 1500 * time.Millisecond

// A simNode is one process: manager, coordinator when it is the oldest, follower,
// and the shards that it holds or moves.
type simNode struct {
	w           *world
	self        transport.Address
	alive       bool
	kinds       []KindInfo
	seen        uint64 // version of the view
	converged   bool
	members     []singleton.Member
	manager     *singleton.Manager
	coordinator *Coordinator
	follower    *Follower
	shards      map[placement.ShardID]*simShard
	lanes       map[transport.Address]time.Time // when the last data message arrives there
	up          uint32
}

// A simShard is one shard at one node. Its state is a number that grows.
type simShard struct {
	id       placement.ShardID
	state    HeldState
	epoch    placement.Epoch // active, draining, sent: under which its home is here
	known    placement.Epoch // of the last placement
	move     placement.Epoch
	peer     transport.Address
	since    time.Time // Draining: when it began
	aborted  bool      // promised never to send Open for move
	tell     bool      // and the coordinator has to be told
	done     bool      // opened by a move that the table does not show
	cancels  placement.Epoch
	value    int
	tableSeq placement.Version
}

// holds reports whether the node has a whole copy of the shard's state.
func (s *simShard) holds() bool {
	return s.state != closed && s.state != Preparing && s.state != Forwarding
}

func newSimNode(w *world, i int) *simNode {
	n := &simNode{
		w: w, self: transport.Address{Name: fmt.Sprintf("n%d", i), Incarnation: uint64(i + 1)}, alive: true,
		shards: map[placement.ShardID]*simShard{}, lanes: map[transport.Address]time.Time{},
	}
	n.kinds = []KindInfo{{Name: "All", Package: "p", Shards: 16, HashName: "xxh64", Hosts: true}}
	if i%3 != 2 {
		n.kinds = append(n.kinds, KindInfo{Name: "Some", Package: "p", Shards: 4, HashName: "xxh64", Hosts: true})
	}
	n.follower = NewFollower(true)
	n.manager, _ = singleton.New(singleton.Config{Name: "coordinator", Self: n.self})
	return n
}

func (n *simNode) shard(id placement.ShardID) *simShard {
	s := n.shards[id]
	if s == nil {
		s = &simShard{id: id}
		n.shards[id] = s
	}
	return s
}

// ids are the shards in order.
func (n *simNode) ids() []placement.ShardID {
	ids := make([]placement.ShardID, 0, len(n.shards))
	for id := range n.shards {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, placement.ShardID.Compare)
	return ids
}

func (n *simNode) empty() bool {
	for _, s := range n.shards {
		if s.state != closed && s.state != Forwarding {
			return false
		}
	}
	return true
}

// wake does what a node does every 100 ms.
func (n *simNode) wake() {
	n.w.after(50*time.Millisecond+n.w.within(100*time.Millisecond), n, n.wake)
	n.follow(n.self, nil)
	n.manage(singleton.Tick{})
	n.coordinate(Tick{})
	ask := map[string]bool{}
	for _, id := range n.ids() {
		s := n.shards[id]
		switch {
		case s.state == Active:
			s.value++ // somebody calls
		case (s.state == Draining || s.state == Sent) && !s.aborted && n.w.now.Sub(s.since) > abortAfter:
			s.aborted, s.tell = true, true
			n.w.logf("%s gives up moving %v at %v", n.self.Name, id, s.move)
		}
		if s.tell && n.w.rng.IntN(3) == 0 {
			n.toCoordinator(MoveAborted{n.follower.Term(), id, s.move, "simulated"})
		}
		if s.done && n.w.rng.IntN(3) == 0 {
			n.toCoordinator(MoveDone{n.follower.Term(), id, s.epoch})
		}
	}
	for _, k := range n.kinds {
		if e, ok := n.follower.Table().Lookup(placement.ShardID{Kind: k.Name, Shard: k.Shards}); !ok || e.Home.IsZero() {
			ask[k.Name] = true
		}
		if ask[k.Name] && n.w.rng.IntN(5) == 0 {
			n.toCoordinator(Ask{k.Name, n.follower.Table().Version()})
		}
	}
}

func (n *simNode) toCoordinator(m Message) {
	if to := n.follower.Coordinator(); !to.IsZero() {
		n.send(to, m)
	}
}

// send sends on the control channel; every message passes the codec.
func (n *simNode) send(to transport.Address, m Message) {
	b, err := Encode(m)
	if err != nil {
		n.w.failf("%v", err)
		return
	}
	copies := 1
	if n.w.loss > 0 && n.w.rng.IntN(20) == 0 {
		copies = 2
	}
	for range copies {
		if n.w.rng.Float64() < n.w.loss {
			continue
		}
		d := n.w.within(20 * time.Millisecond)
		if n.w.loss > 0 && n.w.rng.IntN(10) == 0 {
			d = n.w.within(2 * time.Second)
		}
		if peer := n.w.nodeOf(to); peer != nil {
			n.w.after(d, peer, func() { peer.receive(n.self, b) })
		}
	}
}

func (n *simNode) receive(from transport.Address, b []byte) {
	m, err := Decode(b)
	if err != nil {
		n.w.failf("%v", err)
		return
	}
	switch m := m.(type) {
	case Register, TableRequest, Ask, MoveStatus, MoveDone, MoveAborted, MoveCancelled:
		n.coordinate(Receive{from, m})
	default:
		n.follow(from, m)
	}
}

func (n *simNode) onView(seq uint64, members []singleton.Member) {
	if seq < n.seen {
		return
	}
	n.seen, n.members = seq, slices.Clone(members)
	n.converged = n.w.converged()
	for _, m := range members {
		if m.Address == n.self {
			n.up = m.UpNumber
		}
	}
	n.manage(singleton.View{Members: members})
	n.coordinate(n.view())
}

func (n *simNode) view() View {
	v := View{Converged: n.converged}
	for _, m := range n.members {
		v.Members = append(v.Members, Member{Address: m.Address, Status: m.Status, Hosts: len(n.w.hosts[m.Address]) > 0})
	}
	return v
}

// manage steps the singleton's manager, whose instance is the coordinator.
func (n *simNode) manage(in singleton.Input) {
	out := n.manager.Step(n.w.now, in)
	if err := n.manager.Check(); err != nil {
		n.w.failf("%v: %v", n.self, err)
	}
	for _, e := range out.Events {
		n.w.logf("%s: singleton %v %v: %s", n.self.Name, e.State, e.Peer.Name, e.What)
	}
	for _, e := range out.Send {
		if n.w.rng.Float64() >= n.w.loss {
			peer := n.w.nodeOf(e.To)
			n.w.after(n.w.within(50*time.Millisecond), peer, func() { peer.manage(singleton.Receive{From: n.self, Message: e.Message}) })
		}
	}
	if out.StopInstance {
		n.coordinator = nil
		n.manage(singleton.InstanceStopped{})
	}
	if out.StartInstance {
		for _, o := range n.w.nodes {
			if o.alive && o.coordinator != nil {
				n.w.failf("%v starts a coordinator beside %v", n.self, o.self)
			}
		}
		c, err := New(Config{Self: n.self, Term: placement.Term{Number: uint32(n.up), Incarnation: n.self.Incarnation}})
		if err != nil {
			n.w.failf("%v", err)
			return
		}
		n.coordinator = c
		n.manage(singleton.InstanceStarted{})
		n.coordinate(n.view())
	}
}

func (n *simNode) coordinate(in Input) {
	if n.coordinator == nil {
		return
	}
	out := n.coordinator.Step(n.w.now, in)
	if err := n.coordinator.Check(); err != nil {
		n.w.failf("%v", err)
	}
	for _, e := range out.Events {
		n.w.logf("%s: coordinator %v", n.self.Name, e)
		n.w.counts[e.What]++
	}
	for _, e := range out.Send {
		if !e.To.IsZero() {
			n.send(e.To, e.Message)
			continue
		}
		for _, m := range n.members {
			n.send(m.Address, e.Message)
		}
	}
}

// follow steps the follower and obeys the coordinator.
func (n *simNode) follow(from transport.Address, m Message) {
	out := n.follower.Step(n.w.now, from, m)
	if out.Refused {
		return
	}
	if out.Table != nil {
		n.place(out.Table)
	}
	if out.Register {
		n.send(out.Coordinator, n.follower.Register(n.self, n.kinds, n.held()))
	}
	for _, r := range out.Send {
		n.send(out.Coordinator, r)
	}
	switch m := m.(type) {
	case MoveBegin:
		n.onMoveBegin(m)
	case MoveCancel:
		n.onMoveCancel(m)
	}
}

func (n *simNode) held() []HeldShard {
	var all []HeldShard
	for _, id := range n.ids() {
		s := n.shards[id]
		o := HeldShard{ShardID: id, State: s.state, Epoch: s.epoch, Move: s.move, Peer: s.peer}
		switch {
		case s.state == closed:
			continue
		case s.state == Active:
			o.Move, o.Peer = 0, transport.Address{}
		case s.state.target(), s.state == Forwarding:
			o.Epoch = 0
		}
		all = append(all, o)
	}
	return all
}

// place obeys a new table.
func (n *simNode) place(t *placement.Table) {
	for e := range t.All() {
		s := n.shard(e.ShardID)
		later := t.Version().Term != s.tableSeq.Term
		s.tableSeq = t.Version()
		if e.Epoch < s.known && !later {
			n.w.failf("%v: %v went back from %v to %v within a term", n.self, e.ShardID, s.known, e.Epoch)
		}
		s.known = e.Epoch
		if s.done && e.Epoch >= s.epoch {
			s.done = false
		}
		if e.Home == n.self {
			n.placeHere(s, e.Epoch)
			continue
		}
		switch {
		case s.state == Active && e.Epoch > s.epoch, (s.state == Draining || s.state == Sent) && e.Epoch > s.epoch,
			s.state.target() && e.Epoch > s.move, s.state == Forwarding && e.Home != s.peer && e.Epoch > s.move:
			s.state, s.value, s.tell, s.done = closed, 0, false, false
		}
	}
}

func (n *simNode) placeHere(s *simShard, e placement.Epoch) {
	switch s.state {
	case Active, Draining, Sent:
		if e <= s.epoch {
			return
		}
	case Forwarding:
		if e <= s.move {
			return
		}
		s.value = 0
	case closed, Preparing:
		s.value = 0
	}
	n.open(s, e)
}

func (n *simNode) open(s *simShard, e placement.Epoch) {
	s.state, s.epoch, s.aborted, s.tell, s.done = Active, e, false, false, false
	n.w.activate(n, s)
}

// progressed registers anew while the coordinator goes by what was registered.
func (n *simNode) progressed() {
	if n.follower.Unsettled() {
		n.follower.Changed()
		n.follow(n.follower.Coordinator(), nil)
	}
}

func (n *simNode) onMoveBegin(m MoveBegin) {
	s := n.shard(m.ShardID)
	if s.state == Active && s.epoch == m.From && m.Epoch > s.cancels {
		s.state, s.move, s.peer, s.since, s.aborted = Draining, m.Epoch, m.To, n.w.now, false
		turn := n.w.within(300 * time.Millisecond)
		if n.w.rng.IntN(10) == 0 {
			turn = n.w.within(3 * time.Second)
		}
		n.w.after(turn, n, func() { n.drained(s, m.Epoch) })
	}
	if s.state != closed && s.move == m.Epoch {
		n.toCoordinator(MoveStatus{n.follower.Term(), m.ShardID, m.Epoch, s.state})
	}
}

func (n *simNode) drained(s *simShard, move placement.Epoch) {
	if s.state != Draining || s.move != move || s.aborted {
		return
	}
	s.state = Sent
	n.progressed()
	value := s.value
	n.data(s.peer, func(to *simNode) { to.onInit(n.self, s.id, move, value) })
}

// data sends on a lane, which keeps order and loses nothing while both live.
func (n *simNode) data(to transport.Address, f func(*simNode)) {
	peer := n.w.nodeOf(to)
	at := n.w.now.Add(n.w.within(100 * time.Millisecond))
	if n.w.loss > 0 && n.w.rng.IntN(8) == 0 {
		at = at.Add(n.w.within(3 * time.Second)) // resent after an outage
	}
	if at.Before(n.lanes[to]) {
		at = n.lanes[to]
	}
	n.lanes[to] = at
	n.w.after(at.Sub(n.w.now), peer, func() { f(peer) })
}

func (n *simNode) onInit(from transport.Address, id placement.ShardID, move placement.Epoch, value int) {
	s := n.shard(id)
	if move <= s.known || move <= s.cancels || s.state == Active || s.state == Draining || s.state == Sent || s.state.target() && move <= s.move {
		return
	}
	s.state, s.move, s.peer = Preparing, move, from
	n.progressed()
	n.w.after(n.w.within(50*time.Millisecond), n, func() {
		if s.state == Preparing && s.move == move {
			s.state, s.value = Prepared, value
			n.progressed()
			n.data(from, func(to *simNode) { to.onReady(id, move) })
		}
	})
}

func (n *simNode) onReady(id placement.ShardID, move placement.Epoch) {
	s := n.shard(id)
	if s.state != Sent || s.move != move || s.aborted {
		return
	}
	s.state = Forwarding
	n.progressed()
	n.data(s.peer, func(to *simNode) { to.onOpen(id, move) })
}

func (n *simNode) onOpen(id placement.ShardID, move placement.Epoch) {
	s := n.shard(id)
	if s.state == Prepared && s.move == move {
		n.open(s, move)
		s.done = true
		n.progressed()
		n.toCoordinator(MoveDone{n.follower.Term(), id, move})
	}
}

func (n *simNode) onMoveCancel(m MoveCancel) {
	s, term := n.shard(m.ShardID), n.follower.Term()
	switch {
	case s.state == Forwarding && s.move == m.Epoch:
		n.toCoordinator(MoveStatus{term, m.ShardID, m.Epoch, Forwarding})
		return
	case s.state == Active && s.epoch == m.Epoch:
		n.toCoordinator(MoveDone{term, m.ShardID, m.Epoch})
		return
	case (s.state == Draining || s.state == Sent) && s.move == m.Epoch:
		s.aborted = true
	case s.state.target() && s.move == m.Epoch:
		s.state, s.value = closed, 0
	}
	s.cancels = max(s.cancels, m.Epoch)
	n.toCoordinator(MoveCancelled{term, m.ShardID, m.Epoch})
}
