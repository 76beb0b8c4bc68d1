package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/invariant"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// Config are a coordinator's settings. Zero values mean the defaults.
type Config struct {
	// Self is the node that the coordinator runs on.
	Self transport.Address
	// Term is this coordinator's term, above every earlier one's.
	Term placement.Term
	// MinMembers is how many Up members that host something there must be before
	// a kind is allocated for the first time. Default 1.
	MinMembers int
	// MaxMoves bounds the moves under way for balance, of each kind that says
	// nothing else. Default 3.
	MaxMoves int
	// MaxLeaveMoves bounds the moves under way from leaving members, which come on
	// top. Default 32.
	MaxLeaveMoves int
	// RebalanceInterval is how long a shard whose move for balance was cancelled
	// stays where it is. Default 10s.
	RebalanceInterval time.Duration
	// ResendInterval is the time between two sendings of a message whose effect
	// does not show. Default 500ms.
	ResendInterval time.Duration
	// StatusInterval is the time between two TableStatus to all. Default 1s.
	StatusInterval time.Duration
	// Strategy places shards of kinds that name none. Default
	// placement.LeastShards{Threshold: 1}.
	Strategy placement.Strategy
	// Strategies are the user's own, for kinds that name them. A kind that names
	// one which this node does not know gets Strategy.
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
	if c.Strategy == nil {
		c.Strategy = placement.LeastShards{}
	}
	return c
}

// validate returns an error for settings that make no sense.
func (c Config) validate() error {
	switch {
	case c.Self.IsZero():
		return fmt.Errorf("configure coordinator: Self is not set")
	case c.Term.Number == 0:
		return fmt.Errorf("configure coordinator: Term is 0 (terms count from 1)")
	case c.MinMembers < 0 || c.MaxMoves < 0 || c.MaxLeaveMoves < 0:
		return fmt.Errorf("configure coordinator: a bound is negative (0 means the default)")
	case c.RebalanceInterval < 0 || c.ResendInterval < 0 || c.StatusInterval < 0:
		return fmt.Errorf("configure coordinator: an interval is negative (0 means the default)")
	}
	return nil
}

// leaveRest is how long a leaving member's shard stays after a cancelled move.
const leaveRest = time.Second

// maxAsked bounds the kinds that are remembered before anybody registered them.
const maxAsked = 1024

// maxShards bounds the shards of all kinds together. Each costs the coordinator
// about 120 bytes.
const maxShards = 1 << 20

// An Input is an event: [View], [Receive] or [Tick].
type Input interface{ input() }

// View is the cluster as membership sees it now. It replaces the last one.
type View struct {
	Members []Member // in any order; absent members were removed
	// Converged: all members agree on this view, and none is unreachable. Without
	// it no shard moves for balance.
	Converged bool
}

// Status is a member's status.
type Status = singleton.Status

// A Member is the coordinator's view of a member.
type Member struct {
	Address     transport.Address
	Status      Status
	Unreachable bool
	Hosts       bool // it announced at joining that it hosts entities, so it registers
}

// Receive is a message that came for the coordinator.
type Receive struct {
	From    transport.Address
	Message Message
}

// Tick says that WakeAt has come, or merely that time passed.
type Tick struct{}

func (View) input()    {}
func (Receive) input() {}
func (Tick) input()    {}

// Output has the driver's duties, in this order.
type Output struct {
	Send   []Envelope
	Events []Event
	// WakeAt is when the next Step is due, if nothing happens before; never zero.
	WakeAt time.Time
}

// An Envelope is a message to one process, or with a zero To to every member,
// the coordinator's own node included.
type Envelope struct {
	To      transport.Address
	Message Message
}

// A Coordinator decides about all shards of a cluster during one term. It is a
// pure machine, not safe for concurrent use. See the package's doc for the
// protocol and [Coordinator.Check] for its invariants.
type Coordinator struct {
	config  Config
	now     time.Time
	out     Output
	members map[transport.Address]*member
	order   []transport.Address // keys of members, sorted
	view    View
	kinds   map[string]*kind
	names   []string                  // keys of kinds, sorted
	shards  int                       // of all kinds
	moves   []*move                   // in the order of their begin
	totals  map[transport.Address]int // each node's shards, while a plan is made
	// recovered: every member that hosts types has registered, and shards may be
	// given and moved.
	recovered  bool
	superseded bool // a higher term exists: do nothing any more

	reap    bool            // the view changed: look for shards of the dead
	plan    bool            // something changed that allocation or balance depend on
	planAt  time.Time       // when the first resting shard may move again; zero: none rests
	asked   map[string]bool // kinds that were asked for before they were known
	refused string          // why balance was refused last, to say it once
	waiting string          // the members that recovery waits for, to report each set once

	requests []*request // wishes under way, and the latest that are done
	pinsAt   time.Time  // when to send wishes that members do not keep; zero: all do

	table    *placement.Table
	history  []*placement.Table // former tables, oldest first
	changed  []placement.ShardID
	gone     []transport.Address
	statusAt time.Time
	nudgeAt  time.Time // next TableStatus to those that have not registered

	unchecked int // steps since the last Check
}

// checkedPerStep bounds the cost that assertions add to a step: with more shards they
// are checked every few steps, because checking thousands at each step takes too long.
// Tests of this package call Check after every step.
const checkedPerStep = 64

// New returns a coordinator that knows nothing yet. Its first Step should bring
// the View.
func New(c Config) (*Coordinator, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Coordinator{
		config:  c.withDefaults(),
		members: map[transport.Address]*member{},
		kinds:   map[string]*kind{},
		asked:   map[string]bool{},
	}, nil
}

// Table is the current table, version 0 of this term before recovery.
func (c *Coordinator) Table() *placement.Table { return c.table }

// Recovered reports whether the coordinator knows all shards and decides.
func (c *Coordinator) Recovered() bool { return c.recovered }

// version is the current table's, of which there is none before recovery.
func (c *Coordinator) version() placement.Version {
	if c.table == nil {
		return placement.Version{Term: c.config.Term}
	}
	return c.table.Version()
}

// Step takes one input and returns the driver's duties. Time never goes back.
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
		c.settle()
		c.publish()
		c.resendMoves()
		if !c.pinsAt.IsZero() && !c.now.Before(c.pinsAt) {
			c.spreadPins()
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

// settle brings the shards to where they belong, as far as this moment allows.
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
		c.countTotals()
		c.allocate()
		c.emptyLeaving()
		c.rebalance()
		c.planAt = c.nextRest()
	}
}

func (c *Coordinator) send(to transport.Address, m Message) {
	c.out.Send = append(c.out.Send, Envelope{to, m})
}

func (c *Coordinator) event(e Event) { c.out.Events = append(c.out.Events, e) }

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
	for _, also := range []time.Time{c.planAt, c.pinsAt} {
		if !also.IsZero() && also.Before(at) {
			at = also
		}
	}
	return at
}

// onReceive dispatches a message. Messages of another term and from non-members are
// refused: the sender learns this term from the periodic status, or it knows better than
// this coordinator.
func (c *Coordinator) onReceive(from transport.Address, m Message) {
	term := TermOf(m)
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
		c.send(from, Explained{c.config.Term, m.ID, c.explain(m.ShardID)})
		return
	}
	if !c.alive(from) {
		c.refuse(from, m, "not a member")
		return
	}
	switch m := m.(type) {
	case Place:
		c.onPlace(from, m)
	case PinsKept:
		c.onPinsKept(from, m)
	case Register:
		c.onRegister(from, m)
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

func (c *Coordinator) refuse(from transport.Address, m Message, reason string) {
	c.event(Event{What: Refused, Node: from, Reason: fmt.Sprintf("%s: %s", nameOf(m), reason)})
}

func (c *Coordinator) shard(id placement.ShardID) *shard {
	k := c.kinds[id.Kind]
	if k == nil || id.Shard < k.info.Shards || id.Shard >= 2*k.info.Shards {
		return nil
	}
	return &k.shards[id.Shard-k.info.Shards]
}

// nextEpoch gives out a new epoch for the shard.
func (c *Coordinator) nextEpoch(s *shard) placement.Epoch {
	e := s.last.Next(c.config.Term.Number)
	if e == 0 {
		// Unreachable while terms grow: recovery stops at a claim of a later term.
		invariant.Failf("shard %v: no epoch of term %v is above %v", s.id, c.config.Term, s.last)
	}
	s.last = e
	return e
}

// set makes owner the shard's home under an epoch that was given out before.
func (c *Coordinator) set(s *shard, owner transport.Address, e placement.Epoch) {
	s.owner, s.epoch, s.last = owner, e, max(s.last, e)
	c.changed = append(c.changed, s.id)
	c.plan = true
}

// give makes owner the shard's home under a new epoch; a zero owner leaves the
// shard without one, and the former owner without the right to it.
func (c *Coordinator) give(s *shard, owner transport.Address) { c.set(s, owner, c.nextEpoch(s)) }

// addKind starts to know a kind.
func (c *Coordinator) addKind(info KindInfo) *kind {
	k := &kind{info: info, shards: make([]shard, info.Shards), wanted: c.asked[info.Name]}
	for i := range k.shards {
		k.shards[i].id = placement.ShardID{Kind: info.Name, Shard: info.Shards + uint32(i)}
	}
	c.shards += len(k.shards)
	delete(c.asked, info.Name)
	c.kinds[info.Name] = k
	c.tune(k, info.Tuning)
	i, _ := slices.BinarySearch(c.names, info.Name)
	c.names = slices.Insert(c.names, i, info.Name)
	return k
}
