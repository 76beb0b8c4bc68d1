package singleton

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/transport"
)

// Config are a manager's settings. Zero values mean the defaults.
type Config struct {
	Name string            // of the singleton, the same on all nodes
	Self transport.Address // the node that the manager runs on
	// Role restricts the singleton to members that have it. Default: all members.
	Role string
	// RetryInterval is the time between two sendings of a message that was not
	// answered. Default 200ms.
	RetryInterval time.Duration
	// RemovalMargin is how long after its removal an older member that never
	// confirmed counts as running. Default 0: removal follows downing, which has
	// waited already.
	RemovalMargin time.Duration
	// RestartBackoff is the pause before an instance that stopped by itself is
	// started again; it doubles with each time up to MaxRestartBackoff. Defaults
	// 100ms and 10s.
	RestartBackoff, MaxRestartBackoff time.Duration
	// StableAfter is how long an instance has to run for the pause to begin anew.
	// Default 30s.
	StableAfter time.Duration
}

func (c Config) withDefaults() Config {
	if c.RetryInterval == 0 {
		c.RetryInterval = 200 * time.Millisecond
	}
	if c.RestartBackoff == 0 {
		c.RestartBackoff = 100 * time.Millisecond
	}
	if c.MaxRestartBackoff == 0 {
		c.MaxRestartBackoff = 10 * time.Second
	}
	if c.StableAfter == 0 {
		c.StableAfter = 30 * time.Second
	}
	return c
}

func (c Config) validate() error {
	if c.Name == "" || c.Self.IsZero() {
		return fmt.Errorf("configure singleton %q: Name and Self must be set", c.Name)
	}
	for _, d := range []time.Duration{c.RetryInterval, c.RemovalMargin, c.RestartBackoff, c.MaxRestartBackoff, c.StableAfter} {
		if d < 0 {
			return fmt.Errorf("configure singleton %q: a duration is negative (0 means the default)", c.Name)
		}
	}
	return nil
}

// A State is where a manager stands.
type State uint8

// The states of a manager.
const (
	// Start: this node is not Up yet.
	Start State = iota + 1
	// Younger: another member is the oldest.
	Younger
	// BecomingOldest: this node is the oldest and waits until all older ones have
	// confirmed that they run nothing, or are removed.
	BecomingOldest
	// Oldest: the instance runs here, or pauses before a restart.
	Oldest
	// WasOldest: the instance runs here, this node leaves, and the new oldest has
	// yet to ask for it.
	WasOldest
	// HandingOver: the instance is stopping.
	HandingOver
	// End: nothing runs here, and nothing ever will.
	End
)

var stateNames = [...]string{
	Start: "start", Younger: "younger", BecomingOldest: "becoming oldest", Oldest: "oldest",
	WasOldest: "was oldest", HandingOver: "handing over", End: "end",
}

// String names the state.
func (s State) String() string {
	if int(s) < len(stateNames) && stateNames[s] != "" {
		return stateNames[s]
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// changes is the table of legal changes of state. BecomingOldest → Younger does
// not occur: age does not change, and a member that is the oldest stays so until
// it leaves.
var changes = map[State][]State{
	Start:          {Younger, BecomingOldest, Oldest, End},
	Younger:        {BecomingOldest, Oldest, End},
	BecomingOldest: {Oldest, End},
	Oldest:         {WasOldest, HandingOver, End},
	WasOldest:      {HandingOver, End},
	HandingOver:    {End},
}

// An Input is what happened: [View], [Receive], [InstanceStarted],
// [InstanceStopped] or [Tick].
type Input interface{ input() }

// View is the cluster as membership sees it now. It replaces the last one.
type View struct{ Members []Member }

// A Member is what the manager needs to know of one.
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

// InstanceStopped: the instance has ended, by StopInstance or by itself, or it
// could not be started. Nothing of it runs any more.
type InstanceStopped struct{}

// Tick says that WakeAt has come, or merely that time passed.
type Tick struct{}

func (View) input()            {}
func (Receive) input()         {}
func (InstanceStarted) input() {}
func (InstanceStopped) input() {}
func (Tick) input()            {}

// Output is what must be done, in this order.
type Output struct {
	StartInstance bool // answer with InstanceStarted, or InstanceStopped
	StopInstance  bool // answer with InstanceStopped when it has ended
	Send          []Envelope
	Events        []Event
	WakeAt        time.Time // of the next Step if nothing happens before; zero: none
}

// An Envelope is a message to the manager on another node.
type Envelope struct {
	To      transport.Address
	Message Message
}

// An Event tells of a change, to be logged.
type Event struct {
	State State             // the state after it
	Peer  transport.Address // whom it concerns; may be zero
	What  string            // for people
}

// A Manager decides on one node whether the singleton's instance runs there. It
// is a pure machine, not safe for concurrent use.
type Manager struct {
	config  Config
	now     time.Time
	out     Output
	state   State
	running bool // StartInstance went out, InstanceStopped did not come
	// older are the members that may still run the instance: older than this one,
	// not removed for RemovalMargin, and without confirmation.
	older    map[transport.Address]*older
	order    []transport.Address // keys of older, sorted
	view     map[transport.Address]Member
	oldest   transport.Address // of the members that are Up or Leaving
	seen     bool              // a view came
	askers   []transport.Address
	retryAt  time.Time
	started  time.Time     // when the instance began
	restart  time.Time     // when it begins again; zero: it runs
	backoff  time.Duration // the next pause
	confirms map[transport.Address]bool
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

// State tells where the manager stands.
func (m *Manager) State() State { return m.state }

// Oldest is the oldest member that is Up or Leaving, which the instance runs on
// or soon will; zero when there is none.
func (m *Manager) Oldest() transport.Address { return m.oldest }

// Step takes one input and returns what must be done. Time never goes back.
func (m *Manager) Step(now time.Time, in Input) Output {
	m.now, m.out = now, Output{}
	switch in := in.(type) {
	case View:
		m.onView(in)
	case Receive:
		if in.Message.Name == m.config.Name {
			m.onMessage(in.From, in.Message.Type)
		}
	case InstanceStarted:
		m.started = now
	case InstanceStopped:
		m.onStopped()
	case Tick:
	default:
		invariant.Failf("singleton input %T: want View, Receive, InstanceStarted, InstanceStopped or Tick", in)
	}
	m.advance()
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
//  1. the instance runs in Oldest, WasOldest and HandingOver only, and in the
//     last two always;
//  2. in Oldest it runs, or a restart is set;
//  3. in Oldest no older member is left that may run it.
func (m *Manager) Check() error {
	active := m.state == Oldest || m.state == WasOldest || m.state == HandingOver
	switch {
	case m.running && !active, !m.running && (m.state == WasOldest || m.state == HandingOver):
		return fmt.Errorf("invariant 1: running is %v in state %v", m.running, m.state)
	case m.state == Oldest && m.running == !m.restart.IsZero():
		return fmt.Errorf("invariant 2: running is %v, restart at %v", m.running, m.restart)
	case m.state == Oldest && len(m.order) > 0:
		return fmt.Errorf("invariant 3: %v may run it too", m.order)
	}
	return nil
}

func (m *Manager) become(s State, peer transport.Address, what string) {
	if !slices.Contains(changes[m.state], s) {
		invariant.Failf("singleton %s: %v → %v", m.config.Name, m.state, s)
	}
	m.state, m.retryAt = s, m.now
	m.event(peer, what)
}

func (m *Manager) event(peer transport.Address, what string) {
	m.out.Events = append(m.out.Events, Event{m.state, peer, what})
}

func (m *Manager) send(to transport.Address, t MessageType) {
	m.out.Send = append(m.out.Send, Envelope{to, Message{m.config.Name, t}})
}

func (m *Manager) wakeAt() time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if m.state == BecomingOldest {
		//arch:order-free the earliest is the same in any order
		for _, o := range m.older {
			if !o.removed.IsZero() {
				sooner(o.removed.Add(m.config.RemovalMargin))
			}
		}
		sooner(m.retryAt)
	}
	if m.state == WasOldest {
		sooner(m.retryAt)
	}
	if m.state == Oldest {
		sooner(m.restart)
	}
	return at
}
