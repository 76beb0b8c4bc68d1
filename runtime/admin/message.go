package admin

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

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
)

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
	}
	return fmt.Sprintf("Command(%d)", uint8(c))
}

// A Request is one command.
type Request struct {
	Command Command           // what to do
	Node    transport.Address // whom it concerns: of Join by name alone
	Seeds   []string          // of Join: names to join through; empty: the process's own
	Force   bool              // of Down: also a member that is up and reachable
}

// An Answer ends a request.
type Answer struct {
	Refusal string // why it was not obeyed; empty: it was
	View    View   // of the one who answers, afterwards
}

// A View is the cluster as one process sees it.
type View struct {
	Self      transport.Address // who answered
	Status    membership.Status // of Self
	Waits     bool              // Self waits to be told to join
	Founder   transport.Address // of the cluster; zero: Self is no member
	Leader    transport.Address // zero: there is none
	Converged bool              // all reachable members have seen the same
	Why       string            // not converged
	Members   []Member          // from the oldest to the youngest
	// Singletons are those that members host, by name; none where Self is of a
	// version that does not tell.
	Singletons []Singleton
}

// A Singleton is one row of a View: a type of which the cluster has one instance.
type Singleton struct {
	Kind  string              // its name
	Node  transport.Address   // where it runs; zero: Self has not found it
	Why   string              // it was not found, for people
	Hosts []transport.Address // who may run it, the oldest first
}

// A Member is one row of a View.
type Member struct {
	transport.Address
	Status    membership.Status
	Age       uint32   // a lower number is older; 0: it never was up
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
		}
	}
	if a != nil {
		m.Answer = &wire.AdminAnswer{Refusal: a.Refusal, View: a.View.toWire()}
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
		}, nil, nil
	}
	return m.GetId(), nil, &Answer{Refusal: m.GetAnswer().GetRefusal(), View: viewFromWire(m.GetAnswer().GetView())}, nil
}

func (v View) toWire() *wire.AdminView {
	w := &wire.AdminView{
		Self: toWire(v.Self), Status: uint32(v.Status), Waits: v.Waits, Founder: toWire(v.Founder), Leader: toWire(v.Leader),
		Converged: v.Converged, Why: v.Why,
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
	return w
}

func viewFromWire(w *wire.AdminView) View {
	v := View{
		Self: fromWire(w.GetSelf()), Status: membership.Status(w.GetStatus()), Waits: w.GetWaits(),
		Founder: fromWire(w.GetFounder()), Leader: fromWire(w.GetLeader()), Converged: w.GetConverged(), Why: w.GetWhy(),
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
