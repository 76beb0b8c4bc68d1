package operator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/eventlog"
	"github.com/shardgen/shardgen/internal/turnwatch"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A Command is a request to a process.
type Command uint8

// The commands.
const (
	// Members asks a member for its view of the cluster.
	Members Command = iota + 1
	// RollCall asks every process of the cluster for its own view, also those that
	// are no members yet.
	RollCall
	// Join tells the process of that name, which waits for it, to join.
	Join
	// Leave tells a member to leave in order.
	Leave
	// Down tells a member to down another one.
	Down
	// State asks the node of an entity for its state.
	State
	// SetState tells the node of an entity to replace its state, or to drop it.
	SetState
	// Shards asks a member for the shards that it holds, of one type or of all.
	Shards
	// Where asks a member that hosts a type for the home of one of its entities.
	Where
	// Counters asks a member for its counters.
	Counters
	// Events asks a member for the latest lines of its log.
	Events
	// Moves asks a member for the moves of shards under way, of which the coordinator's knows.
	Moves
	// Turns asks a member for its most frequent turns. It counts them from then on for a while.
	Turns
	// Facts asks a member for its version, clock, health and limits.
	Facts
	// Place tells a member that hosts a type to pin the shard of an entity.
	Place
	// Rebalance tells a member to have the coordinator look at once which shards should move.
	Rebalance
	// PauseRebalancing tells a member to have the coordinator move no shard for balance.
	PauseRebalancing
	// ResumeRebalancing ends that.
	ResumeRebalancing
	// Inspect asks the node of an entity for all but its state, or every node for the entities whose
	// state it cannot read.
	Inspect

	commands // is above all of them
)

// Known reports whether this version knows the command.
func (c Command) Known() bool { return 0 < c && c < commands }

// OfProcess reports whether the process carries the command out, beyond what its membership
// knows.
func (c Command) OfProcess() bool {
	switch c {
	case State, SetState, Shards, Where, Counters, Events, Turns, Facts, Place, Rebalance, PauseRebalancing, ResumeRebalancing, Inspect:
		return true
	}
	return false
}

// ForOperators reports whether the command changes anything, or shows state. Operators that may only
// read send none of these.
func (c Command) ForOperators() bool {
	switch c {
	case Members, RollCall, Inspect, Shards, Where, Counters, Events, Moves, Turns, Facts:
		return false
	}
	return true
}

// String names the command.
func (c Command) String() string {
	switch c {
	case Members:
		return "members"
	case RollCall:
		return "roll call"
	case Join:
		return "join"
	case Leave:
		return "leave"
	case Down:
		return "down"
	case State:
		return "state"
	case SetState:
		return "set state"
	case Shards:
		return "shards"
	case Where:
		return "where"
	case Counters:
		return "counters"
	case Events:
		return "events"
	case Moves:
		return "moves"
	case Turns:
		return "turns"
	case Facts:
		return "facts"
	case Place:
		return "place"
	case Rebalance:
		return "rebalance"
	case PauseRebalancing:
		return "pause rebalancing"
	case ResumeRebalancing:
		return "resume rebalancing"
	case Inspect:
		return "inspect"
	}
	return fmt.Sprintf("Command(%d)", uint8(c))
}

// A Request is one command.
type Request struct {
	Command Command           // the request
	Node    transport.Address // the member that it concerns; of Join by name alone
	Seeds   []string          // of Join: names to join through; empty means the process's own
	Force   bool              // of Down: also a member that is up and reachable
	Entity  Entity            // of State, SetState, Inspect, Where and Place: which, and the new state; of Shards: its Kind, or ""
	After   uint64            // of Events: the number of the last line that is known
	Home    string            // of Place: the name of a node; "" means the pin is withdrawn
	By      string            // the operator, as the broker says; it is not encoded
}

// An Answer ends a request.
type Answer struct {
	Refusal string // why it was not obeyed; empty means it was
	View    View   // of the answering member, afterwards
	// Entities are the answer to State, SetState and Inspect. An entity whose Node is not the answering
	// member lives at that node, which is to be asked.
	Entities []Entity
	Types    []Type            // the answer to Shards, by name
	Where    Home              // the answer to Where
	Counters map[string]uint64 // the answer to Counters: how often, by reason; those above 0
	Lines    []eventlog.Line   // the answer to Events, the oldest first
	Last     uint64            // the answer to Events: the number of the last line that there is
	Moves    []Move            // the answer to Moves, in the order of their begin
	Turns    *turnwatch.Report // the answer to Turns
	Facts    *Fact             // the answer to Facts
	Result   string            // of Rebalance, PauseRebalancing and ResumeRebalancing, for people
}

// An Entity is one entity with its encoded state, which is the message KindState in
// the output of shardgen contract proto.
type Entity struct {
	Kind   string            // its type
	ID     string            // as on the wire; of Inspect "": all that cannot be read
	Node   transport.Address // where it lives
	Active bool              // it has a value in memory, so its state is fine
	State  []byte            // encoded; nil means it has none, or SetState drops it
	Why    string            // the state cannot be read; empty means it can
	JSON   string            // the state for people; "" means it has no such form, or is too large
	Bytes  uint64            // size of its encoded state; 0 means it has none, or was not idle
	// Turn is under way; nil means it is idle. The state of an entity with a turn is not shown.
	Turn    *turnwatch.Running
	Mailbox uint32 // calls that wait for its turn
	// Errors are its last failed calls at Node, the latest first. They are kept for an hour, five of each
	// entity and of 1,024 entities of a node.
	Errors []Failure
	// Stored: it is durable and passivated, and its state was read from the store.
	Stored bool
}

// A Failure is a failed call of an entity. It has neither arguments nor the text of the error.
type Failure struct {
	Method  string
	Outcome string        // for people
	Ago     time.Duration // since it failed
}

// A View is the cluster as one process sees it.
type View struct {
	Self    transport.Address // the answering member
	Status  membership.Status // of Self
	Waits   bool              // Self waits to be told to join
	Founder transport.Address // of the cluster; zero: Self is no member
	Leader  transport.Address // zero: there is none
	// Coordinator runs at this member; zero: Self has not heard of one.
	Coordinator transport.Address
	Converged   bool     // all reachable members have seen the same
	Why         string   // not converged
	Members     []Member // from the oldest to the youngest
	// Singletons are those that members host, by name; none where Self is of a
	// version that does not tell.
	Singletons []Singleton
	// Pause is that of rebalancing; zero means there is none.
	Pause Pause
}

// A Pause is why no shards move for balance.
type Pause struct {
	By string    // the operator
	At time.Time // when it began, by the coordinator's clock
}

// IsZero reports whether there is no pause.
func (p Pause) IsZero() bool { return p.At.IsZero() }

// Causes of [View.Find]'s errors.
var (
	// ErrUnknownNode: no member has that name or incarnation.
	ErrUnknownNode = errors.New("no such member")
	// ErrAmbiguous: several incarnations have that name.
	ErrAmbiguous = errors.New("several incarnations have this name")
)

// Find returns the one member that is meant by "name" or "name#incarnation". It
// fails with ErrUnknownNode, or with ErrAmbiguous and the incarnations to choose
// from.
func (v View) Find(node string) (Member, error) {
	var found []Member
	for _, m := range v.Members {
		if m.Name == node || m.Address.String() == node {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 0:
		var names []string
		for _, m := range v.Members {
			names = append(names, m.Name)
		}
		const most = 20
		if more := len(names) - most; more > 0 {
			names = append(names[:most], fmt.Sprintf("and %d more", more))
		}
		return Member{}, fmt.Errorf("%s: %w: %s sees [%s]", node, ErrUnknownNode, v.Self.Name, strings.Join(names, " "))
	case 1:
		return found[0], nil
	}
	var which []string
	for _, m := range found {
		which = append(which, fmt.Sprintf("%v (%v)", m.Address, m.Status))
	}
	return Member{}, fmt.Errorf("%s: %w: say which of %s", node, ErrAmbiguous, strings.Join(which, ", "))
}

// A Singleton is one row of a View: a type of which the cluster has one instance.
type Singleton struct {
	Kind  string              // its name
	Node  transport.Address   // where it runs; zero: Self has not found it
	Why   string              // it was not found, for people
	Hosts []transport.Address // the members that may run it, the oldest first
}

// A Member is one row of a View.
type Member struct {
	transport.Address
	Status    membership.Status
	Age       uint32   // a lower number is older; 0 means it never was up
	Reachable bool     // nobody says otherwise
	Evidence  string   // against an unreachable one
	Roles     []string // of its config
	Hosts     []string // entity types
}

// Encode makes bytes of a message, per internal/wire/admin.proto: a request, or the
// answer to the request of that id. Exactly one of them must be given.
func Encode(id uint64, r *Request, a *Answer) ([]byte, error) {
	if (r == nil) == (a == nil) {
		return nil, errors.New("encode admin message: it is neither a request nor an answer, or both (give one of them)")
	}
	m := &wire.Admin{Id: id}
	if r != nil {
		m.Request = &wire.AdminRequest{
			Command: wire.AdminCommand(r.Command), Node: toWire(r.Node), Seeds: r.Seeds, Force: r.Force,
			After: r.After, Home: r.Home,
		}
		if !r.Entity.isZero() {
			m.Request.Entity = r.Entity.toWire()
		}
	}
	if a != nil {
		m.Answer = &wire.AdminAnswer{Refusal: a.Refusal, View: a.View.toWire()}
		for _, e := range a.Entities {
			m.Answer.Entities = append(m.Answer.Entities, e.toWire())
		}
		for _, t := range a.Types {
			m.Answer.Types = append(m.Answer.Types, t.toWire())
		}
		m.Answer.Place, m.Answer.Counters = a.Where.toWire(), a.Counters
		a.linesToWire(m.Answer)
		for _, v := range a.Moves {
			m.Answer.Moves = append(m.Answer.Moves, v.toWire())
		}
		m.Answer.Turns, m.Answer.Facts, m.Answer.Result = turnsToWire(a.Turns), a.Facts.toWire(), a.Result
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode admin message: %w", err)
	}
	return b, nil
}

// Decode reads a message of Encode. One of request and answer is nil. Other bytes give an
// error and never a panic.
func Decode(b []byte) (id uint64, r *Request, a *Answer, err error) {
	var m wire.Admin
	if err := proto.Unmarshal(b, &m); err != nil {
		return 0, nil, nil, fmt.Errorf("decode admin message: %w", err)
	}
	switch q := m.GetRequest(); {
	case (q == nil) == (m.GetAnswer() == nil):
		return 0, nil, nil, errors.New("decode admin message: it is neither a request nor an answer (is the sender newer?)")
	case q != nil:
		return m.GetId(), &Request{
			Command: Command(q.GetCommand()), Node: fromWire(q.GetNode()), Seeds: q.GetSeeds(), Force: q.GetForce(),
			Entity: entityFromWire(q.GetEntity()), After: q.GetAfter(), Home: q.GetHome(),
		}, nil, nil
	}
	a = &Answer{Refusal: m.GetAnswer().GetRefusal(), View: viewFromWire(m.GetAnswer().GetView())}
	for _, e := range m.GetAnswer().GetEntities() {
		a.Entities = append(a.Entities, entityFromWire(e))
	}
	for _, t := range m.GetAnswer().GetTypes() {
		a.Types = append(a.Types, typeFromWire(t))
	}
	a.Where = homeFromWire(m.GetAnswer().GetPlace())
	a.linesFromWire(m.GetAnswer())
	for _, v := range m.GetAnswer().GetMoves() {
		a.Moves = append(a.Moves, moveFromWire(v))
	}
	a.Turns, a.Facts = turnsFromWire(m.GetAnswer().GetTurns()), factsFromWire(m.GetAnswer().GetFacts())
	a.Result = m.GetAnswer().GetResult()
	if c := m.GetAnswer().GetCounters(); len(c) > 0 {
		a.Counters = c
	}
	return m.GetId(), nil, a, nil
}

func (e Entity) isZero() bool {
	return e.Kind == "" && e.ID == "" && e.Node.IsZero() && !e.Active && e.State == nil && e.Why == "" && e.JSON == "" &&
		e.Bytes == 0 && e.Turn == nil && e.Mailbox == 0 && len(e.Errors) == 0 && !e.Stored
}

func (e Entity) toWire() *wire.AdminEntity {
	w := &wire.AdminEntity{
		Kind: e.Kind, Id: e.ID, Node: toWire(e.Node), Active: e.Active, State: e.State, Why: e.Why, Json: e.JSON, Bytes: e.Bytes, Mailbox: e.Mailbox,
		Stored: e.Stored,
	}
	for _, f := range e.Errors {
		w.Errors = append(w.Errors, &wire.AdminError{Method: f.Method, Outcome: f.Outcome, Nanos: uint64(f.Ago)})
	}
	if e.Turn != nil {
		w.Turn = turnToWire(*e.Turn)
	}
	return w
}

func entityFromWire(w *wire.AdminEntity) Entity {
	if w == nil {
		return Entity{}
	}
	e := Entity{
		Kind: w.GetKind(), ID: w.GetId(), Node: fromWire(w.GetNode()), Active: w.GetActive(), State: w.State, Why: w.GetWhy(), JSON: w.GetJson(),
		Bytes: w.GetBytes(), Mailbox: w.GetMailbox(), Stored: w.GetStored(),
	}
	for _, f := range w.GetErrors() {
		e.Errors = append(e.Errors, Failure{f.GetMethod(), f.GetOutcome(), time.Duration(f.GetNanos())})
	}
	if w.GetTurn() != nil {
		t := turnFromWire(w.GetTurn())
		e.Turn = &t
	}
	return e
}

func (v View) toWire() *wire.AdminView {
	w := &wire.AdminView{
		Self: toWire(v.Self), Status: uint32(v.Status), Waits: v.Waits, Founder: toWire(v.Founder), Leader: toWire(v.Leader),
		Converged: v.Converged, Why: v.Why, Coordinator: toWire(v.Coordinator),
	}
	for _, m := range v.Members {
		w.Members = append(w.Members, &wire.AdminMember{
			Node: toWire(m.Address), Status: uint32(m.Status), Age: m.Age, Unreachable: !m.Reachable,
			Evidence: m.Evidence, Roles: m.Roles, Kinds: m.Hosts,
		})
	}
	for _, s := range v.Singletons {
		row := &wire.AdminSingleton{Kind: s.Kind, Node: toWire(s.Node), Why: s.Why}
		for _, a := range s.Hosts {
			row.Hosts = append(row.Hosts, toWire(a))
		}
		w.Singletons = append(w.Singletons, row)
	}
	if !v.Pause.IsZero() {
		w.Pause = &wire.AdminPause{By: v.Pause.By, At: toNanos(v.Pause.At)}
	}
	return w
}

func viewFromWire(w *wire.AdminView) View {
	v := View{
		Self: fromWire(w.GetSelf()), Status: membership.Status(w.GetStatus()), Waits: w.GetWaits(),
		Founder: fromWire(w.GetFounder()), Leader: fromWire(w.GetLeader()), Converged: w.GetConverged(), Why: w.GetWhy(),
		Coordinator: fromWire(w.GetCoordinator()),
	}
	if p := w.GetPause(); p != nil {
		v.Pause = Pause{p.GetBy(), fromNanos(p.GetAt())}
	}
	for _, m := range w.GetMembers() {
		v.Members = append(v.Members, Member{
			Address: fromWire(m.GetNode()), Status: membership.Status(m.GetStatus()), Age: m.GetAge(),
			Reachable: !m.GetUnreachable(), Evidence: m.GetEvidence(), Roles: m.GetRoles(), Hosts: m.GetKinds(),
		})
	}
	for _, s := range w.GetSingletons() {
		row := Singleton{Kind: s.GetKind(), Node: fromWire(s.GetNode()), Why: s.GetWhy()}
		for _, a := range s.GetHosts() {
			row.Hosts = append(row.Hosts, fromWire(a))
		}
		v.Singletons = append(v.Singletons, row)
	}
	return v
}

func toWire(a transport.Address) *wire.AdminNode {
	if a.IsZero() {
		return nil
	}
	return &wire.AdminNode{Name: a.Name, Incarnation: a.Incarnation}
}

func fromWire(n *wire.AdminNode) transport.Address {
	return transport.Address{Name: n.GetName(), Incarnation: n.GetIncarnation()}
}
