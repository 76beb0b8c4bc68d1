package singleton

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Manager decides on one node whether the singleton's instance runs on that node. It is a pure
// machine, not safe for concurrent use.
type Manager struct {
	config   Config
	now      time.Time
	out      Output
	state    State
	running  bool // StartInstance was returned, and InstanceStopped not received
	relays   bool // no instance runs, only a relay: see Output.Relay
	stopping bool // StopInstance was returned, and InstanceStopped not received
	starts   uint32
	// older are the members that may still run the instance. They are older than this one, were not
	// removed longer than RemovalMargin ago, and have not confirmed that they run none.
	older     map[transport.Address]*older
	order     []transport.Address // keys of older, sorted
	view      map[transport.Address]Member
	oldest    transport.Address // of the members that are Up or Leaving
	heirs     bool              // another member is Up, or will soon be
	seen      bool              // a view came
	quit      bool
	askers    []transport.Address
	successor transport.Address // of the last StopInstance
	givenTo   transport.Address // the successor to which state and calls were sent
	from      transport.Address // the node whose HandOverDone announced the state
	retryAt   time.Time
	retries   int
	started   time.Time     // when the instance began
	restart   time.Time     // in Oldest, when the instance starts again; zero: it runs
	backoff   time.Duration // the next pause
	confirms  map[transport.Address]bool
	lease     leaseState
	why       string // the reason why the instance does not run
}

type older struct {
	removed time.Time // zero: still in the view
}

// New returns a manager that has seen no view.
func New(c Config) (*Manager, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return &Manager{
		config: c, state: Start, backoff: c.RestartBackoff,
		older: map[transport.Address]*older{}, confirms: map[transport.Address]bool{},
	}, nil
}

// State returns the manager's state.
func (m *Manager) State() State { return m.state }

// Oldest returns the oldest Up or Leaving member, where the instance runs or soon will, or zero if
// there is none. With HandoffAt Leaving it returns the oldest Up member.
func (m *Manager) Oldest() transport.Address { return m.oldest }

// Alone reports whether no other member can take the instance, not even a joining one later.
func (m *Manager) Alone() bool { return !m.heirs && m.oldest.IsZero() }

// Running reports whether the instance runs here, or is being started or stopped.
func (m *Manager) Running() bool { return m.running }

// Holds reports whether this node still has work with the instance: the instance runs, pauses or
// stops here, its lease is being released, or this node relays its state.
func (m *Manager) Holds() bool {
	return m.state == Oldest || m.state == LosingLease || m.state == WasOldest || m.state == Relaying || m.state == HandingOver
}

// Why returns the reason why the instance does not run here, as text, or "" if it runs.
func (m *Manager) Why() string {
	switch m.state {
	case BecomingOldest:
		names := ""
		for i, a := range m.order {
			if i > 0 {
				names += ", "
			}
			names += a.Name
		}
		return fmt.Sprintf("%s waits until %s has stopped it or is removed", m.config.Self.Name, names)
	case AcquiringLease:
		return fmt.Sprintf("%s waits for its lease: %s", m.config.Self.Name, m.why)
	case Oldest:
		if m.restart.IsZero() {
			return ""
		}
		return fmt.Sprintf("%s starts it again after it stopped by itself: %s", m.config.Self.Name, m.why)
	}
	return fmt.Sprintf("%s is %v", m.config.Self.Name, m.state)
}

// Step handles one input and returns the resulting actions. now must not go back.
func (m *Manager) Step(now time.Time, in Input) Output {
	m.now, m.out = now, Output{}
	switch in := in.(type) {
	case View:
		m.onView(in)
	case Receive:
		if in.Message.Name == m.config.Name {
			m.onMessage(in.From, in.Message)
		}
	case Arrived:
		m.from = in.From
	case InstanceStarted:
		m.started = now
	case InstanceStopped:
		m.onStopped(in)
	case LeaseAcquired, LeaseDenied, LeaseLost, LeaseReleased:
		m.onLease(in)
	case Quit:
		m.quit = true
	case Tick:
	default:
		invariant.Failf("singleton input %T: want one that is named at Input", in)
	}
	m.advance()
	m.askLease()
	m.retry()
	m.out.WakeAt = m.wakeAt()
	if invariant.Enabled {
		if err := m.Check(); err != nil {
			invariant.Failf("singleton %s after %T: %v", m.config.Name, in, err)
		}
	}
	return m.out
}

// Check tests the invariants of the manager between two steps:
//
//  1. the instance runs in Oldest, WasOldest, LosingLease and HandingOver only,
//     and in WasOldest always; in Relaying, running means that its state is kept;
//  2. in Oldest the instance runs, or a restart is scheduled;
//  3. in Oldest no older member is left that may run the instance;
//  4. in LosingLease StopInstance was sent and not yet answered;
//  5. with Config.Lease the instance runs in Oldest and WasOldest only while the
//     lease is held, and the lease is not given back before it has stopped.
func (m *Manager) Check() error {
	held := m.lease.held
	switch {
	case m.running && !m.Holds(), !m.running && m.state == WasOldest:
		return fmt.Errorf("invariant 1: running is %v, which is not allowed in state %v", m.running, m.state)
	case m.state == Oldest && m.running == !m.restart.IsZero():
		return fmt.Errorf("invariant 2: in state Oldest running is %v, and the restart is at %v", m.running, m.restart)
	case m.state == Oldest && len(m.order) > 0:
		return fmt.Errorf("invariant 3: in state Oldest, older members %v may still run the instance", m.order)
	case m.state == LosingLease && !m.stopping:
		return fmt.Errorf("invariant 4: in state LosingLease no instance is stopping")
	case m.config.Lease && !held && (m.state == Oldest || m.state == WasOldest):
		return fmt.Errorf("invariant 5: the instance runs without a lease in state %v", m.state)
	case m.lease.releasing && m.running && !m.relays:
		return fmt.Errorf("invariant 5: the lease is being released while the instance runs")
	}
	return nil
}

func (m *Manager) become(s State, peer transport.Address, what string) {
	if !slices.Contains(changes[m.state], s) {
		invariant.Failf("singleton %s: %v → %v", m.config.Name, m.state, s)
	}
	m.state, m.retryAt, m.retries = s, m.now, 0
	m.event(peer, what)
}

func (m *Manager) event(peer transport.Address, what string) {
	m.out.Events = append(m.out.Events, Event{State: m.state, Peer: peer, What: what})
}

func (m *Manager) send(to transport.Address, t MessageType) {
	msg := Message{Name: m.config.Name, Type: t}
	msg.Handed = t == HandOverDone && to == m.givenTo
	m.out.Send = append(m.out.Send, Envelope{to, msg})
}

func (m *Manager) wakeAt() time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	switch m.state {
	case BecomingOldest, Relaying:
		//arch:order-free the earliest is the same in any order
		for _, o := range m.older {
			if !o.removed.IsZero() {
				sooner(o.removed.Add(m.config.RemovalMargin))
			}
		}
		sooner(m.retryAt)
	case WasOldest:
		sooner(m.retryAt)
	case Oldest:
		sooner(m.restart)
	case AcquiringLease:
		if !m.lease.asking {
			sooner(m.lease.askAt)
		}
	case Start, Younger, LosingLease, HandingOver, End:
	}
	return at
}

// onView determines the oldest member, and the older members that may still run the instance.
func (m *Manager) onView(v View) {
	m.seen = true
	m.view = make(map[transport.Address]Member, len(v.Members))
	for _, o := range v.Members {
		m.view[o.Address] = o
	}
	m.oldest = v.oldest(m.config.Role, m.config.HandoffAt)
	m.heirs = slices.ContainsFunc(v.Members, func(o Member) bool {
		return o.Address != m.config.Self && o.Status <= membership.Up && o.has(m.config.Role)
	})
	m.trackOlder(v)
}

// trackOlder records all members that are older than this one, because each of them may have been
// the oldest and may still run the instance. A recorded member is dropped only when it is removed,
// or has confirmed that it does not run the instance.
func (m *Manager) trackOlder(v View) {
	self := m.view[m.config.Self] // until it is Up, its UpNumber is 0 and nobody is older
	for _, o := range v.Members {
		if o.UpNumber > 0 && o.has(m.config.Role) && o.olderThan(self) && !m.confirms[o.Address] && m.older[o.Address] == nil {
			m.older[o.Address] = &older{}
			i, _ := slices.BinarySearchFunc(m.order, o.Address, transport.Address.Compare)
			m.order = slices.Insert(m.order, i, o.Address)
		}
	}
	for _, a := range m.order {
		if _, ok := m.view[a]; !ok && m.older[a].removed.IsZero() {
			m.older[a].removed = m.now
		}
	}
	//arch:order-free all are visited
	for a := range m.confirms {
		if _, ok := m.view[a]; !ok {
			delete(m.confirms, a)
		}
	}
}

func (m *Manager) prune() {
	m.order = slices.DeleteFunc(m.order, func(a transport.Address) bool {
		o := m.older[a]
		past := !o.removed.IsZero() && !m.now.Before(o.removed.Add(m.config.RemovalMargin))
		if past {
			delete(m.older, a)
		}
		return past
	})
}

// leaving reports whether this node must give the instance away (leaving), whether no member will
// ask for the instance (gone), and whether this node must stop the instance even if no member takes
// it (last).
func (m *Manager) leaving() (leaving, gone, last bool) {
	self, ok := m.view[m.config.Self]
	if !ok || self.Status == membership.Down {
		return true, true, true
	}
	return self.Status >= m.config.HandoffAt, false, self.Status == membership.Exiting || m.quit
}

// advance makes the state changes that are due by view and time. A state that waits for an answer
// stays, so one change of the oldest member is handled at a time.
func (m *Manager) advance() {
	if !m.seen {
		return
	}
	m.prune()
	leaving, gone, last := m.leaving()
	switch m.state {
	case Start:
		self, ok := m.view[m.config.Self]
		switch {
		case !ok || self.Status < membership.Up: // not yet a member
		case leaving:
			m.become(End, transport.Address{}, "leaves before it was up")
		case m.oldest == m.config.Self:
			m.becomeOldest()
		default:
			m.become(Younger, m.oldest, "another member is the oldest")
		}
	case Younger:
		if leaving {
			m.become(End, transport.Address{}, "leaves")
		} else if m.oldest == m.config.Self {
			m.becomeOldest()
		}
	case BecomingOldest:
		if leaving {
			m.become(Relaying, transport.Address{}, "leaves before it took over")
			m.advanceRelaying(gone, last)
		} else if len(m.order) == 0 {
			m.proceed("took over")
		}
	case AcquiringLease:
		if leaving {
			m.become(Relaying, transport.Address{}, "leaves before it got the lease")
			m.advanceRelaying(gone, last)
		} else if m.lease.held {
			m.start("got the lease")
		}
	case Oldest:
		m.advanceOldest(leaving, gone, last)
	case LosingLease:
		if leaving {
			m.become(HandingOver, m.oldest, "leaves")
		}
	case WasOldest:
		if gone || last && m.oldest.IsZero() {
			m.stop(transport.Address{}, "nobody to hand off to: state that is in no store ends here")
		}
	case Relaying:
		m.advanceRelaying(gone, last)
	case HandingOver, End:
	}
}

// advanceRelaying collects the state of older members, and passes it to a member that asks.
func (m *Manager) advanceRelaying(gone, last bool) {
	hopeless := gone || last && m.oldest.IsZero()
	if !m.running {
		switch {
		case hopeless:
			m.end("no member is left to take what was handed over")
		case len(m.order) > 0: // one of these older members may have handed over to this node
		case m.from.IsZero():
			m.end("nothing was handed over")
		default:
			m.launch()
			m.out.Relay, m.relays = true, true
			m.retryAt = m.now
			m.event(m.out.Predecessor, "passes on what was handed over")
		}
	}
	switch to := m.asker(); {
	case !m.running:
	case hopeless:
		m.stop(transport.Address{}, "nobody to hand off to: state that is in no store ends here")
	case !to.IsZero():
		m.stop(to, "asked to hand off")
	}
}

func (m *Manager) asker() (to transport.Address) {
	for _, a := range m.askers {
		if o, known := m.view[a]; known && o.Status != membership.Down && (to.IsZero() || a == m.oldest) {
			to = a
		}
	}
	return to
}

func (m *Manager) advanceOldest(leaving, gone, last bool) {
	switch {
	case leaving && (gone || last && m.oldest.IsZero()):
		m.stop(transport.Address{}, "nobody to hand off to: state that is in no store ends here")
	case leaving && m.oldest.IsZero(): // a member may still come
	case leaving && !m.running:
		m.stop(m.oldest, "leaves between two instances")
	case leaving:
		m.become(WasOldest, m.oldest, "leaves")
	}
	if m.state == Oldest && !m.running && !m.now.Before(m.restart) {
		m.launch()
		m.event(transport.Address{}, "starts the instance again")
	}
}

func (m *Manager) becomeOldest() {
	if len(m.order) == 0 {
		m.proceed("no older member is left")
		return
	}
	m.become(BecomingOldest, m.order[0], "older members are left")
}

func (m *Manager) proceed(why string) {
	if !m.config.Lease {
		m.start(why)
		return
	}
	m.become(AcquiringLease, m.config.Self, why)
	m.lease.askAt, m.why = m.now, "it asks for it"
}

func (m *Manager) start(why string) {
	m.become(Oldest, transport.Address{}, why)
	m.launch()
}

func (m *Manager) launch() {
	m.starts++
	m.out.StartInstance, m.running = true, true
	m.out.Epoch = placement.MakeEpoch(m.view[m.config.Self].UpNumber, m.starts)
	m.out.Predecessor, m.from = m.from, transport.Address{}
	m.started = m.now
	m.restart = time.Time{}
}

func (m *Manager) stop(to transport.Address, why string) {
	m.become(HandingOver, to, why)
	m.halt(to)
}

// halt stops the instance. It asks the driver even during the pause before a restart, because calls
// wait for the instance.
func (m *Manager) halt(to transport.Address) {
	m.stopping = true
	m.out.StopInstance = true
	if o := m.view[to]; to != m.config.Self && o.UpNumber > 0 {
		m.out.Successor, m.givenTo = to, transport.Address{}
		m.out.SuccessorEpoch = placement.MakeEpoch(o.UpNumber, 1)
	}
	m.successor = m.out.Successor
}

// onStopped answers the nodes that ask for the instance, or schedules a restart if it ended by
// itself.
func (m *Manager) onStopped(in InstanceStopped) {
	if m.stopping {
		m.running, m.stopping = false, false
		if in.Handed {
			m.givenTo = m.successor
		}
		switch {
		case m.state == LosingLease:
			m.become(AcquiringLease, m.config.Self, "the instance has stopped")
			m.lease.askAt, m.why = m.now, "it was lost"
		case !m.releaseLease():
			m.end("the instance has stopped")
		}
		return
	}
	if !m.running {
		return
	}
	m.running, m.why = false, in.Reason
	if m.state == WasOldest {
		m.stop(m.oldest, "the instance stopped by itself")
		return
	}
	if m.now.Sub(m.started) >= m.config.StableAfter {
		m.backoff = m.config.RestartBackoff
	}
	m.restart = m.now.Add(m.backoff)
	m.backoff = min(2*m.backoff, m.config.MaxRestartBackoff)
	m.event(transport.Address{}, "the instance stopped by itself")
}

// end confirms that no instance runs here or will be started.
func (m *Manager) end(why string) {
	for _, a := range m.askers {
		m.send(a, HandOverDone)
	}
	m.become(End, transport.Address{}, why)
}

func (m *Manager) onMessage(from transport.Address, msg Message) {
	switch msg.Type {
	case HandOverToMe:
		m.onHandOverToMe(from)
	case HandOverInProgress:
		if m.asks() && m.older[from] != nil {
			m.retries = 0 // the older member answers
			m.event(from, "is stopping its instance")
		}
	case HandOverDone:
		if m.asks() && m.older[from] != nil {
			delete(m.older, from)
			m.order = slices.DeleteFunc(m.order, func(a transport.Address) bool { return a == from })
			if _, ok := m.view[from]; ok {
				m.confirms[from] = true
			}
			if msg.Handed {
				m.from = from
			}
			m.event(from, "has stopped its instance")
		}
	case TakeOverFromMe:
		// Before this node knows that it is the oldest, it does nothing: its view
		// will say so, and the sender repeats the message.
		if m.state == BecomingOldest || m.state == AcquiringLease || m.state == Oldest {
			m.send(from, HandOverToMe)
		}
	case Identify, Identity: // a proxy's
	}
}

// onHandOverToMe hands off the instance if this node's own view shows that this node is leaving,
// because a node that leaves stays leaving. Otherwise it ignores the message: the sender may be in
// the other half of a split cluster, which may lose. If the sender is right, it repeats the
// message. For the same reason, messages of Down and unknown senders are ignored.
func (m *Manager) onHandOverToMe(from transport.Address) {
	if m.state == End {
		m.send(from, HandOverDone)
		return
	}
	leaving, _, _ := m.leaving()
	if o, known := m.view[from]; !known || o.Status == membership.Down || !leaving || !m.Holds() {
		return
	}
	if !slices.Contains(m.askers, from) {
		m.askers = append(m.askers, from)
	}
	m.send(from, HandOverInProgress)
	if m.state != HandingOver && m.state != Relaying {
		m.stop(from, "asked to hand off")
	}
}

func (m *Manager) asks() bool { return m.state == BecomingOldest || m.state == Relaying }

func (m *Manager) retry() {
	if m.now.Before(m.retryAt) {
		return
	}
	switch {
	case m.state == WasOldest, m.state == Relaying && m.running:
		if !m.oldest.IsZero() {
			m.send(m.oldest, TakeOverFromMe)
			m.count(m.oldest)
		}
	case m.asks():
		for _, a := range m.order {
			if m.older[a].removed.IsZero() {
				m.send(a, HandOverToMe)
				m.count(a)
			}
		}
	default:
		return
	}
	m.retryAt = m.now.Add(m.config.HandoffRetry)
}

func (m *Manager) count(peer transport.Address) {
	m.retries++
	if m.retries == m.config.MaxHandoffRetries+1 {
		m.out.Events = append(m.out.Events, Event{
			State: m.state, Peer: peer, Stuck: true,
			What: fmt.Sprintf("no answer to %d messages (does it hang, or does a turn not end? the handoff waits until it answers or is removed)", m.retries),
		})
	}
}
