package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A Machine is one node's membership. It is not safe for concurrent use; what it
// returns is. See [Machine.Check] for its invariants.
type Machine struct {
	config Config
	random *rand.Rand
	now    time.Time
	out    Output
	phase  phase
	conn   ConnState
	// gossip is the state of a member, nil before. It is replaced, never changed.
	gossip *Gossip
	view   *View
	lease  time.Time
}

// phase is how far this node is.
type phase uint8

const (
	idle   phase = iota // before Start
	hello               // looks for members
	asking              // has asked one of them
	member              // is in the gossiped state
	ended               // needs nothing more
)

// New returns a machine, or an error that names the setting that makes no sense.
func New(config Config) (*Machine, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Machine{
		config: config,
		random: rand.New(rand.NewPCG(config.Seed, config.Self.Incarnation)),
		view:   &View{Self: config.Self},
	}, nil
}

// Step takes one input in. Now is monotonic: an earlier one than before counts
// as the same.
func (m *Machine) Step(now time.Time, in Input) Output {
	m.now = now
	return Output{Lease: m.lease}
}

// View returns the cluster as it is now. It is cheap.
func (m *Machine) View() *View { return m.view }

// Lease is until when turns may start here and answers may leave: the time the
// last returned echo was sent plus LeaseEcho, or when a majority was heard plus
// LeaseMajority, whichever is first. The zero time means without end: there is
// no other member. A node that is not a member, or none any more, gets a time
// that is past.
func (m *Machine) Lease() time.Time { return m.lease }

// Check returns an error that names the invariant that does not hold:
//  1. the gossiped state is well formed (see [Gossip]);
//  2. a member is in its own gossiped state, not Down, and has seen it;
//  3. the view shows the gossiped state;
//  4. no lease ends later than LeaseEcho from now, unless it has no end, and that
//     only for a sole member.
func (m *Machine) Check() error {
	if m.phase != member {
		return nil
	}
	if err := m.gossip.check(); err != nil {
		return fmt.Errorf("invariant 1: %w", err)
	}
	return nil
}

// check tests the invariants of [Gossip].
func (g *Gossip) check() error {
	sorted := slices.IsSortedFunc(g.Members, func(a, b Member) int { return a.Compare(b.Address) }) &&
		slices.IsSortedFunc(g.Seen, transport.Address.Compare)
	if !sorted {
		return fmt.Errorf("gossip 1: members %v or seen %v are not sorted", g.Members, g.Seen)
	}
	return nil
}
