package operator

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A View is the cluster as one process sees it.
type View struct {
	Self    transport.Address // the answering member
	Status  membership.Status // of Self
	Waits   bool              // Self waits for the command to join
	Founder transport.Address // of the cluster; zero: Self is no member
	Leader  transport.Address // zero: there is none
	// Coordinator is the member with the coordinator; zero means that Self has not heard of one.
	Coordinator transport.Address
	Converged   bool     // all reachable members have seen the same state
	Why         string   // the reason if not converged
	Members     []Member // from the oldest to the youngest
	// Singletons are the singletons that members host, by name. It is empty if Self's version does
	// not report them.
	Singletons []Singleton
	// Pause is the pause of rebalancing; zero means that rebalancing is not paused.
	Pause Pause
	// Table is the version of the membership table; 0 means that the members agree by gossip.
	Table uint64
	// Health is Self's score of its own health, with a table: from 0, healthy, to 8.
	Health int
}

// A Pause says by whose command, and since when, the coordinator moves no shards for balance.
type Pause struct {
	By string    // the operator
	At time.Time // when it began, by the coordinator's clock
}

// IsZero reports whether there is no pause.
func (p Pause) IsZero() bool { return p.At.IsZero() }

// The errors that [View.Find] wraps.
var (
	// ErrUnknownNode means that no member has this name or incarnation.
	ErrUnknownNode = errors.New("no such member")
	// ErrAmbiguous means that several members have this name, with different incarnations.
	ErrAmbiguous = errors.New("several incarnations have this name")
)

// Find returns the member that is called "name" or "name#incarnation". It fails with
// ErrUnknownNode, or with ErrAmbiguous, in which case the error lists the incarnations to choose
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

// A Singleton is a type of which the cluster has one instance: one row of a View.
type Singleton struct {
	Kind  string              // its name
	Node  transport.Address   // where the instance runs; zero: Self has not found it
	Why   string              // why the instance was not found, for people
	Hosts []transport.Address // the members that may run the instance, the oldest first
}

// A Member is a member of the cluster: one row of a View.
type Member struct {
	transport.Address
	Status    membership.Status
	Age       uint32   // a lower number is older; 0 means it never was up
	Reachable bool     // no member says that it is unreachable
	Evidence  string   // why the member is unreachable
	Roles     []string // of its config
	Hosts     []string // entity types
	// Suspicions and Alive are from the member's row of the membership table: the votes that it is
	// dead, and when it last wrote that it is alive, by its own clock. They are zero with gossip.
	Suspicions []Suspicion
	Alive      time.Time
}

// A Suspicion is a member's vote that another member is dead.
type Suspicion struct {
	By string
	At time.Time // by the voter's clock
}

func (v View) toWire() *wire.AdminView {
	w := &wire.AdminView{
		Self: toWire(v.Self), Status: uint32(v.Status), Waits: v.Waits, Founder: toWire(v.Founder), Leader: toWire(v.Leader),
		Converged: v.Converged, Why: v.Why, Coordinator: toWire(v.Coordinator), Table: v.Table, Health: uint32(v.Health),
	}
	for _, m := range v.Members {
		row := &wire.AdminMember{
			Node: toWire(m.Address), Status: uint32(m.Status), Age: m.Age, Unreachable: !m.Reachable,
			Evidence: m.Evidence, Roles: m.Roles, Kinds: m.Hosts, Alive: toNanos(m.Alive),
		}
		for _, s := range m.Suspicions {
			row.Suspicions = append(row.Suspicions, &wire.AdminSuspicion{By: s.By, At: toNanos(s.At)})
		}
		w.Members = append(w.Members, row)
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
		Coordinator: fromWire(w.GetCoordinator()), Table: w.GetTable(), Health: int(w.GetHealth()),
	}
	if p := w.GetPause(); p != nil {
		v.Pause = Pause{p.GetBy(), fromNanos(p.GetAt())}
	}
	for _, m := range w.GetMembers() {
		row := Member{
			Address: fromWire(m.GetNode()), Status: membership.Status(m.GetStatus()), Age: m.GetAge(),
			Reachable: !m.GetUnreachable(), Evidence: m.GetEvidence(), Roles: m.GetRoles(), Hosts: m.GetKinds(), Alive: fromNanos(m.GetAlive()),
		}
		for _, s := range m.GetSuspicions() {
			row.Suspicions = append(row.Suspicions, Suspicion{s.GetBy(), fromNanos(s.GetAt())})
		}
		v.Members = append(v.Members, row)
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
