package singleton

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// An Input is an event for a [Manager]: [View], [Receive],
// [InstanceStarted], [InstanceStopped], [LeaseAcquired], [LeaseDenied],
// [LeaseLost], [LeaseReleased], [Quit] or [Tick].
type Input interface{ input() }

// View is the cluster as membership sees it now. It replaces the last one.
type View struct{ Members []Member }

// A Member is one member, as far as the manager needs to know it.
type Member struct {
	Address  transport.Address
	Status   Status
	UpNumber uint64 // age: the lower the older; 0 until the member was Up
	Roles    []string
}

// Receive is a message from another manager.
type Receive struct {
	From    transport.Address
	Message Message
}

// InstanceStarted: what StartInstance asked for has begun to run.
type InstanceStarted struct{}

// InstanceStopped answers StopInstance, or tells that the instance ended by
// itself or could not be started. Nothing of it runs any more.
type InstanceStopped struct {
	// Handed: its state and the calls that waited are on their way to
	// Output.Successor.
	Handed bool
	Reason string // why it stopped by itself, for people
}

// LeaseAcquired and LeaseDenied answer AcquireLease; LeaseLost tells that a
// lease that was acquired is over, or is about to be; LeaseReleased answers
// ReleaseLease, also when releasing failed: then the lease ends by itself.
type (
	LeaseAcquired struct{}
	LeaseDenied   struct {
		RetryAfter time.Duration // asking earlier is useless; 0: not known
		Reason     string        // for people
	}
	LeaseLost     struct{}
	LeaseReleased struct{}
)

// Quit says that this node is about to leave and that nobody is there to hand
// over to: the instance stops for good.
type Quit struct{}

// Tick says that WakeAt has come, or merely that time passed.
type Tick struct{}

func (View) input()            {}
func (Receive) input()         {}
func (InstanceStarted) input() {}
func (InstanceStopped) input() {}
func (LeaseAcquired) input()   {}
func (LeaseDenied) input()     {}
func (LeaseLost) input()       {}
func (LeaseReleased) input()   {}
func (Quit) input()            {}
func (Tick) input()            {}

// Output has the actions to be taken, in this order.
type Output struct {
	AcquireLease  bool // answer with LeaseAcquired or LeaseDenied
	StartInstance bool // answer with InstanceStarted, or InstanceStopped
	// Epoch is the one to start under. With StopInstance and a Successor it is the
	// one under which that will start.
	Epoch placement.Epoch
	// Predecessor, with StartInstance, has said that the state and the waiting
	// calls of the former instance follow from there; zero: nothing follows.
	Predecessor  transport.Address
	StopInstance bool // answer with InstanceStopped when it has ended
	// Successor, with StopInstance, takes over; zero: nobody does yet.
	Successor    transport.Address
	ReleaseLease bool // answer with LeaseReleased
	Send         []Envelope
	Events       []Event
	WakeAt       time.Time // of the next Step if nothing happens before; zero: none
}

// An Envelope is a message to another node.
type Envelope struct {
	To      transport.Address
	Message Message
}

// An Event tells of a change, to be logged.
type Event struct {
	State State             // the state after it
	Peer  transport.Address // whom it concerns; may be zero
	What  string            // for people
	Stuck bool              // it should worry an operator
}

// A Manager decides on one node whether the singleton's instance runs there. It
// is a pure machine, not safe for concurrent use.
type Manager struct {
	config   Config
	now      time.Time
	out      Output
	state    State
	running  bool // StartInstance went out, InstanceStopped did not come
	stopping bool // StopInstance went out, InstanceStopped did not come
	starts   uint32
	// older are the members that may still run the instance: older than this one,
	// not removed for RemovalMargin, and without confirmation.
	older     map[transport.Address]*older
	order     []transport.Address // keys of older, sorted
	view      map[transport.Address]Member
	oldest    transport.Address // of the members that are Up or Leaving
	seen      bool              // a view came
	quit      bool
	askers    []transport.Address
	successor transport.Address // of the last StopInstance
	givenTo   transport.Address // the successor that state and calls went to
	from      transport.Address // whose HandOverDone said that the state follows
	retryAt   time.Time
	retries   int
	started   time.Time     // when the instance began
	restart   time.Time     // when it begins again; zero: it runs
	backoff   time.Duration // the next pause
	confirms  map[transport.Address]bool
	lease     leaseState
	why       string // why the instance does not run, for people
}

// An older member and when it disappeared.
type older struct {
	removed time.Time // zero: it is in the view
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

// Oldest is the oldest member that is Up or Leaving, which the instance runs on
// or soon will; zero when there is none. With HandOverAt Leaving it is the
// oldest that is Up.
func (m *Manager) Oldest() transport.Address { return m.oldest }

// Running reports whether the instance runs here, or is being started or stopped.
func (m *Manager) Running() bool { return m.running }

// Holds reports whether this node still has something of the instance: it runs,
// pauses, stops, or its lease is being given back.
func (m *Manager) Holds() bool {
	return m.state == Oldest || m.state == LosingLease || m.state == WasOldest || m.state == HandingOver
}

// Why tells people why the instance does not run here; "" when it does.
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

// Step takes one input and returns the resulting actions. Time never goes back.
func (m *Manager) Step(now time.Time, in Input) Output {
	m.now, m.out = now, Output{}
	switch in := in.(type) {
	case View:
		m.onView(in)
	case Receive:
		if in.Message.Name == m.config.Name {
			m.onMessage(in.From, in.Message)
		}
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
//     and in WasOldest always;
//  2. in Oldest it runs, or a restart is set;
//  3. in Oldest no older member is left that may run it;
//  4. in LosingLease StopInstance has gone out and was not answered;
//  5. with Config.Lease the instance runs in Oldest and WasOldest only while the
//     lease is held, and the lease is not given back before it has stopped.
func (m *Manager) Check() error {
	held := m.lease.held
	switch {
	case m.running && !m.Holds(), !m.running && m.state == WasOldest:
		return fmt.Errorf("invariant 1: running is %v in state %v", m.running, m.state)
	case m.state == Oldest && m.running == !m.restart.IsZero():
		return fmt.Errorf("invariant 2: running is %v, restart at %v", m.running, m.restart)
	case m.state == Oldest && len(m.order) > 0:
		return fmt.Errorf("invariant 3: %v may run it too", m.order)
	case m.state == LosingLease && !m.stopping:
		return fmt.Errorf("invariant 4: nothing is stopping")
	case m.config.Lease && !held && (m.state == Oldest || m.state == WasOldest):
		return fmt.Errorf("invariant 5: no lease in %v", m.state)
	case m.lease.releasing && m.running:
		return fmt.Errorf("invariant 5: the lease is given back while the instance runs")
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
	case BecomingOldest:
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
