package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Config holds a coordinator's settings. Zero values mean the defaults.
type Config struct {
	// Self is the node on which the coordinator runs.
	Self transport.Address
	// Term is this coordinator's term, which must be above every earlier one.
	Term placement.Term
	// Anew means that terms unknown to this cluster were used: another cluster may have had the
	// shards since this cluster's last coordinator. So known shards get new epochs at their homes,
	// which then claim the shards again from the store.
	Anew bool
	// MinMembers is the number of Up members with hosted types that must exist before a type is
	// allocated for the first time. Default 1.
	MinMembers int
	// MaxMoves bounds how many shards of a type move for rebalancing at once, unless the type's own
	// Tuning sets a bound. Default 3.
	MaxMoves int
	// MaxLeaveMoves bounds how many shards move away from leaving members at once, in addition to
	// rebalancing. Default 32.
	MaxLeaveMoves int
	// RebalanceInterval is how long a shard stays at its home after a rebalancing move was
	// cancelled. Default 10s.
	RebalanceInterval time.Duration
	// ResendInterval is the interval at which a message is sent again until its effect shows.
	// Default 500ms.
	ResendInterval time.Duration
	// StatusInterval is the interval of the TableStatus sent to all members. Default 1s.
	StatusInterval time.Duration
	// LoadInterval is the interval at which members report loads, see [ReportInterval]. After a
	// move by load a shard rests for 30 intervals. The budget of moves by load is for an hour of
	// 360 intervals. Only simulations set it. Default [LoadInterval].
	LoadInterval time.Duration
	// Strategy places shards of types that name no strategy. Default
	// placement.LeastShards{Threshold: 1}.
	Strategy placement.Strategy
	// Strategies are the user's own strategies, by name. A type that names a strategy unknown to
	// this node is placed by Strategy.
	Strategies Strategies
}

func (c Config) withDefaults() Config {
	if c.MinMembers == 0 {
		c.MinMembers = 1
	}
	if c.MaxMoves == 0 {
		c.MaxMoves = 3
	}
	if c.MaxLeaveMoves == 0 {
		c.MaxLeaveMoves = 32
	}
	if c.RebalanceInterval == 0 {
		c.RebalanceInterval = 10 * time.Second
	}
	if c.ResendInterval == 0 {
		c.ResendInterval = 500 * time.Millisecond
	}
	if c.StatusInterval == 0 {
		c.StatusInterval = time.Second
	}
	if c.LoadInterval == 0 {
		c.LoadInterval = LoadInterval
	}
	if c.Strategy == nil {
		c.Strategy = placement.LeastShards{}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Self.IsZero():
		return fmt.Errorf("configure coordinator: Self is not set")
	case c.Term.Number == 0:
		return fmt.Errorf("configure coordinator: Term is 0 (terms count from 1)")
	case c.MinMembers < 0 || c.MaxMoves < 0 || c.MaxLeaveMoves < 0:
		return fmt.Errorf("configure coordinator: a bound is negative (0 means the default)")
	case c.RebalanceInterval < 0 || c.ResendInterval < 0 || c.StatusInterval < 0 || c.LoadInterval < 0:
		return fmt.Errorf("configure coordinator: an interval is negative (0 means the default)")
	}
	return nil
}

// leaveRest is how long a shard rests at a leaving member after a cancelled move.
const leaveRest = time.Second

// maxAsked bounds the wanted types that no member has registered.
const maxAsked = 1024

// maxShards bounds the shards of all types. Each costs about 150 bytes of memory.
const maxShards = 1 << 20

// An Input of a [Coordinator] is a [View], a [Receive] or a [Tick].
type Input interface{ input() }

// View is the present view of the cluster. It replaces the previous View.
type View struct {
	Members []Member // in any order; absent members were removed
	// Converged reports whether all members agree on this view and none is unreachable. If not, no
	// shard moves for rebalancing.
	Converged bool
}

// A Member is one member of the cluster, with the properties that the coordinator needs.
type Member struct {
	Address     transport.Address
	Status      membership.Status
	Unreachable bool
	Hosts       bool // it announced at joining that it hosts types, so it registers
}

// Receive is a message received for the coordinator.
type Receive struct {
	From    transport.Address
	Message Message
}

// Tick means that the time WakeAt has come, or that some time has passed.
type Tick struct{}

func (View) input()    {}
func (Receive) input() {}
func (Tick) input()    {}

// Output has the actions that the driver must take, in the order of the fields.
type Output struct {
	Send   []Envelope
	Events []Event
	// WakeAt is when Step must be called next, if there is no other input before; never zero.
	WakeAt time.Time
}

// An Envelope is a message to one process. A zero To means all members, including the coordinator's
// own node.
type Envelope struct {
	To      transport.Address
	Message Message
}

// A Coordinator decides about all shards of a cluster during one term. It is a pure machine, not
// safe for concurrent use. The package's doc describes the protocol, and [Coordinator.Check] the
// invariants.
type Coordinator struct {
	config Config

	now  time.Time // the time of the present Step
	out  Output    // the output of the present Step
	reap bool      // the view changed: look for shards of members that are gone
	plan bool      // something changed on which allocation or rebalancing depends
	// superseded reports that a higher term exists. The coordinator then does nothing.
	superseded bool
	unchecked  int // steps since the last Check

	// member.go: the members and their registrations.
	members map[transport.Address]*member
	order   []transport.Address // keys of members, sorted
	view    View

	// recover.go
	recovered bool   // all members that host types have registered: shards may be given and moved
	waiting   string // the members that recovery waits for, to report each set once

	// types.go: the registered types and their shards.
	types  map[string]*entityType
	names  []string        // keys of types, sorted
	shards int             // of all types
	asked  map[string]bool // types wanted by calls before any registration

	// table.go
	table    *placement.Table
	history  []*placement.Table  // former tables, oldest first
	changed  []placement.ShardID // since table
	gone     []transport.Address // since table
	statusAt time.Time           // next TableStatus to all
	nudgeAt  time.Time           // next TableStatus to those that have not registered

	// requests.go: what every registered member keeps for the next coordinator.
	requests []*request // those under way, and the latest done
	pause    Pause      // of rebalancing; pins are at their types
	keepAt   time.Time  // when to send pins and the pause to members that do not keep them; zero means all do

	// move.go
	moves []*move // in the order of their begin

	// plan.go
	loadAt  time.Time         // when to evaluate loads next; zero: no type needs it yet
	sumAt   time.Time         // when to add reports to the means, at the earliest
	planAt  time.Time         // when the first resting shard may move again; zero means none rests
	loaded  bool              // a load was reported since the last round
	refused string            // why rebalancing was refused last, to log it once
	last    transport.Address // the member that got an instance of a pool last
	memory  planMemory
}

// checkedPerStep bounds the cost of assertions: with n shards, Step calls Check every
// n/checkedPerStep steps. This package's tests call Check after every step.
const checkedPerStep = 64

// New returns a coordinator that knows no shards. The first Step should bring the View.
func New(c Config) (*Coordinator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Coordinator{
		config: c.withDefaults(), members: map[transport.Address]*member{}, types: map[string]*entityType{}, asked: map[string]bool{},
	}, nil
}

// Recovered reports whether the coordinator has recovered: it knows all shards and decides about
// them.
func (c *Coordinator) Recovered() bool { return c.recovered }

// Step handles one input and returns the actions of the driver. now must not go back.
func (c *Coordinator) Step(now time.Time, in Input) Output {
	c.now, c.out = now, Output{}
	if c.superseded {
		return Output{WakeAt: now.Add(c.config.StatusInterval)}
	}
	switch in := in.(type) {
	case View:
		c.onView(in)
	case Receive:
		c.onReceive(in.From, in.Message)
	case Tick:
	default:
		invariant.Failf("coordinator input %T: want View, Receive or Tick", in)
	}
	if !c.recovered {
		c.recover()
	}
	if c.recovered {
		c.weigh()
		c.settle()
		c.publish()
		c.resendMoves()
		if !c.keepAt.IsZero() && !c.now.Before(c.keepAt) {
			c.spread()
		}
	}
	c.announce()
	c.out.WakeAt = c.wakeAt()
	if c.superseded {
		// The messages of this step were decided without knowing of the higher term.
		return Output{Events: c.out.Events, WakeAt: c.out.WakeAt}
	}
	if c.unchecked++; invariant.Enabled && c.unchecked*checkedPerStep >= c.shards {
		c.unchecked = 0
		if err := c.Check(); err != nil {
			invariant.Failf("coordinator after %T: %v", in, err)
		}
	}
	return c.out
}

// HandedDown reports whether all staying members keep the pins and the pause of rebalancing for the
// next coordinator. Until then the coordinator's own process must not leave.
func (c *Coordinator) HandedDown() bool {
	if c.superseded {
		return true // a later coordinator keeps them
	}
	return c.recovered && !slices.ContainsFunc(c.order, func(a transport.Address) bool {
		m := c.members[a]
		return m.present && m.Hosts && m.Status == membership.Up && !m.Unreachable && !c.keeps(m)
	})
}

// keeps reports whether a member keeps all latest pins and the latest pause.
func (c *Coordinator) keeps(m *member) bool {
	return m.register != nil && m.kept[""] >= c.pause.Seq && !slices.ContainsFunc(c.names, func(name string) bool {
		return m.kept[name] < c.types[name].pins.Seq
	})
}

func (c *Coordinator) settle() {
	if c.reap {
		c.reap, c.plan = false, true
		c.reapMoves()
		c.reapShards()
	}
	if !c.planAt.IsZero() && !c.now.Before(c.planAt) {
		c.plan = true
	}
	if c.plan {
		c.plan = false
		c.sizePools()
		c.countTotals()
		c.allocate()
		c.emptyLeaving()
		c.rebalance()
		c.retire()
		c.planAt = c.nextRest()
	}
}

func (c *Coordinator) wakeAt() time.Time {
	at := c.statusAt
	if !c.recovered && c.nudgeAt.Before(at) {
		at = c.nudgeAt
	}
	for _, m := range c.moves {
		if m.resendAt.Before(at) {
			at = m.resendAt
		}
	}
	if !c.recovered {
		// Pins and the pause are spread only after recovery. Until then, keepAt is the time of a
		// registration, which has passed.
		return at
	}
	for _, also := range []time.Time{c.planAt, c.keepAt, c.loadAt} {
		if !also.IsZero() && also.Before(at) {
			at = also
		}
	}
	return at
}

// onReceive passes a message to its handler. A message of a later term ends this coordinator. A
// message of an earlier term is refused; its sender learns this coordinator's term from the next
// TableStatus. Non-members may send only questions.
func (c *Coordinator) onReceive(from transport.Address, m Message) {
	term := m.term()
	if term.Compare(c.config.Term) > 0 {
		c.superseded = true
		c.event(Event{What: Superseded, Node: from, Reason: fmt.Sprintf("%T of term %v", m, term)})
		return
	}
	if term != (placement.Term{}) && term != c.config.Term {
		c.refuse(from, m, fmt.Sprintf("term %v is over", term))
		return
	}
	switch m := m.(type) {
	case TableRequest: // anybody may ask, also outside clients
		c.onTableRequest(from, m)
		return
	case Ask:
		c.onAsk(from, m)
		return
	case Explain:
		text, since := c.explain(m.ShardID)
		c.send(from, Explained{c.config.Term, m.ID, text, since})
		return
	}
	if !c.alive(from) {
		c.refuse(from, m, "not a member")
		return
	}
	switch m := m.(type) {
	case SetPins:
		c.onSetPins(from, m)
	case PinsKept:
		c.onKept(from, m.Type, m.Seq)
	case Balance:
		c.onBalance(from, m)
	case PauseKept:
		c.onKept(from, "", m.Seq)
	case Register:
		c.onRegister(from, m)
	case PoolLoad:
		c.onPoolLoad(from, m)
	case MemberLoad:
		c.onMemberLoad(from, m)
	case MoveStatus:
		c.onMoveStatus(from, m)
	case MoveDone:
		c.onMoveDone(from, m)
	case MoveAborted:
		c.onMoveAborted(from, m)
	case MoveCancelled:
		c.onMoveCancelled(from, m)
	default:
		c.refuse(from, m, "not for a coordinator")
	}
}

func (c *Coordinator) send(to transport.Address, m Message) {
	c.out.Send = append(c.out.Send, Envelope{to, m})
}

func (c *Coordinator) event(e Event) { c.out.Events = append(c.out.Events, e) }

func (c *Coordinator) refuse(from transport.Address, m Message, reason string) {
	c.event(Event{What: Refused, Node: from, Reason: fmt.Sprintf("%s: %s", nameOf(m), reason)})
}

// Check tests the invariants of the coordinator between two steps:
//
//  1. the table shows each shard's home and epoch as the coordinator knows them;
//  2. no epoch in the table is above the highest epoch assigned to the shard, and no assigned epoch
//     belongs to a later term;
//  3. from recovery on, every home is a living member;
//  4. a move leads from the shard's home to another node or, in a pool, to no node; its epoch is
//     above the home's epoch, and at most the highest assigned; both nodes live, but the new home
//     may be gone while the old home is asked to cancel;
//  5. every move is recorded in its shard and in the list of moves, and will be checked again
//     within the resend interval;
//  6. before recovery there is no table, no move and no home;
//  7. a pool has at least as many instances as failures require, within its settings and the room
//     of its members; each instance has a home if some member has room for it; an instance moves
//     if its member has too many.
func (c *Coordinator) Check() error {
	var errs []error
	fail := func(n int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("invariant %d: %s", n, fmt.Sprintf(format, args...)))
	}
	onShards := 0
	for _, name := range c.names {
		k := c.types[name]
		for i := range k.shards {
			s := &k.shards[i]
			want := placement.Entry{ShardID: s.id, Home: s.home, Epoch: s.epoch}
			if e, ok := c.table.Lookup(s.id); ok && e != want || !ok && s.epoch != 0 {
				fail(1, "the table says %v, the coordinator %v", e, want)
			}
			if s.epoch > s.last || s.last.Term() > c.config.Term.Number {
				fail(2, "%v: epoch %v, highest %v in term %v", s.id, s.epoch, s.last, c.config.Term)
			}
			if !s.home.IsZero() && !c.alive(s.home) {
				fail(3, "the home of %v is %v, which is gone", s.id, s.home)
			}
			if s.at != c.members[s.home] {
				fail(3, "%v is at %v, and its member is another one", s.id, s.home)
			}
			if s.move != nil {
				onShards++
			}
			if !c.recovered && (s.move != nil || !s.home.IsZero()) {
				fail(6, "%v was decided about", s.id)
			}
		}
	}
	for _, m := range c.moves {
		s := m.shard
		if s.home != m.from || m.to == m.from || m.epoch <= s.epoch || m.epoch > s.last ||
			!c.alive(m.from) || !c.alive(m.to) && m.phase != askingOld && m.cause != retiring {
			fail(4, "%v at %v: move %v→%v at %v, %v", s.id, s.epoch, m.from, m.to, m.epoch, m.phase)
		}
		if s.move != m || m.phase == ended || m.resendAt.After(c.now.Add(c.config.ResendInterval)) {
			fail(5, "%v: %v, next at %v", s.id, m.phase, m.resendAt)
		}
	}
	if onShards != len(c.moves) {
		fail(5, "%d shards move, %d moves are listed", onShards, len(c.moves))
	}
	if !c.recovered && c.table != nil {
		fail(6, "table %v", c.table.Version())
	}
	if err := c.checkPools(); err != nil && c.recovered && !c.superseded {
		fail(7, "%v", err)
	}
	return errors.Join(errs...)
}
