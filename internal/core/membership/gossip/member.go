package gossip

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A Status is a stage in the life of a member. A later stage has a higher value, so when two
// records of one member are merged, the higher status is kept.
type Status uint8

// The statuses of a member.
const (
	// NoStatus is the status of a node that is not a member, or not yet.
	NoStatus Status = iota
	// Joining members are admitted and wait for the leader to make them Up.
	Joining
	// WeaklyUp members serve although the view has not converged. See
	// Config.WeaklyUpAfter.
	WeaklyUp
	// Up members are full members.
	Up
	// Leaving members have asked to leave and hand off their shards and singletons.
	Leaving
	// Exiting members have handed off everything and are removed next.
	Exiting
	// Down members were given up by the others, or were ordered to stop. A Down member is removed
	// next, and stops if it is still alive.
	Down
	// Removed nodes are not members. A removed incarnation never becomes a member again.
	Removed
)

// String returns the name of the status.
func (s Status) String() string {
	switch s {
	case NoStatus:
		return "none"
	case Joining:
		return "joining"
	case WeaklyUp:
		return "weakly-up"
	case Up:
		return "up"
	case Leaving:
		return "leaving"
	case Exiting:
		return "exiting"
	case Down:
		return "down"
	case Removed:
		return "removed"
	}
	return "unknown"
}

// CanBecome reports whether a member may move from s to another status in one step.
func (s Status) CanBecome(to Status) bool { return canBecome[s][to] }

// canBecome is the table of legal moves; the second index is the target.
var canBecome = [Removed + 1][Removed + 1]bool{
	NoStatus: {Joining: true},
	Joining:  {WeaklyUp: true, Up: true, Leaving: true, Down: true},
	WeaklyUp: {Up: true, Leaving: true, Down: true},
	Up:       {Leaving: true, Down: true},
	Leaving:  {Exiting: true, Down: true},
	Exiting:  {Down: true, Removed: true},
	Down:     {Removed: true},
}

// A Member is one node as the gossiped state describes it. Roles and Meta never
// change and are shared: do not modify them.
type Member struct {
	transport.Address
	Status Status   // its stage between joining and removal
	Roles  []string // sorted
	// UpNumber is the member's age: the leader numbers members as they become
	// Up, and a lower number is older. 0 before that.
	UpNumber uint32
	// ExitReady is set at a Leaving member that has nothing left to hand off.
	ExitReady bool
	// Forced is set at a Down member that an operator downed. The operator vouches for its death.
	Forced bool
	// Judged is set at a member downed by a side with the lease. See the downing strategy "lease
	// majority".
	Judged bool
	// Fenced is set at a Down member that certainly runs no turns any more, because
	// its lease has ended: its shards may be given to others. It is removed only
	// after that.
	Fenced bool
	// Quarantined is set when messages that had to arrive could not be delivered to
	// the member. It counts as unreachable from then on, and can only become Down or
	// be removed.
	Quarantined bool
	// Meta is the member's description of itself at joining, sorted by key.
	Meta []KeyValue
}

// HasRole reports whether the member has the role. Every member has the empty role.
func (m Member) HasRole(role string) bool {
	return role == "" || slices.Contains(m.Roles, role)
}

// MayRun reports whether the member may still run turns: it is not Down, or is not fenced yet.
// While it may, its shards and singletons must not be given to others.
func (m Member) MayRun() bool { return m.Status != Down || !m.Fenced }

// MetaValue returns the value of a key of Meta, or "".
func (m Member) MetaValue(key string) string {
	value, _ := LookupKey(m.Meta, key)
	return value
}

// String returns the address, the status and the age: "a#0000000000000001 up 3".
func (m Member) String() string {
	if m.UpNumber == 0 {
		return fmt.Sprintf("%v %v", m.Address, m.Status)
	}
	return fmt.Sprintf("%v %v %d", m.Address, m.Status, m.UpNumber)
}

// CompareAge orders members from the oldest to the youngest. Members that never
// were Up come last, by address.
func (m Member) CompareAge(o Member) int {
	// The subtraction turns 0 into the highest number, so a member without an age is the youngest.
	if c := cmp.Compare(m.UpNumber-1, o.UpNumber-1); c != 0 {
		return c
	}
	return m.Compare(o.Address)
}

func (m Member) check(upCounter uint32) error {
	switch {
	case transport.CheckName("node", m.Name) != nil:
		return fmt.Errorf("gossip: %w", transport.CheckName("node", m.Name))
	case m.Status == NoStatus || m.Status >= Removed:
		return fmt.Errorf("gossip: %v has status %d, which no member has", m.Address, m.Status)
	case m.UpNumber > upCounter || m.Status == Up && m.UpNumber == 0:
		return fmt.Errorf("gossip: %v has UpNumber %d, UpCounter is %d (want at most the counter, and above 0 for an Up member)", m.Address, m.UpNumber, upCounter)
	case !KeysAscend(m.Meta):
		return fmt.Errorf("gossip: Meta of %v is not sorted by key, or has a key twice", m.Address)
	case m.Fenced && m.Status != Down:
		return fmt.Errorf("gossip: %v is fenced, but its status is %v and not Down", m.Address, m.Status)
	}
	return nil
}

func mergeMembers(a, b []Member) []Member {
	merged := make([]Member, 0, max(len(a), len(b)))
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case j == len(b) || i < len(a) && a[i].Compare(b[j].Address) < 0:
			merged = append(merged, a[i])
			i++
		case i == len(a) || a[i].Compare(b[j].Address) > 0:
			merged = append(merged, b[j])
			j++
		default:
			merged = append(merged, mergeMember(a[i], b[j]))
			i++
			j++
		}
	}
	return merged
}

// mergeMember merges two records with the same Roles and Meta. Of two ages it keeps the older one,
// because the member may have acted on it.
func mergeMember(a, b Member) Member {
	a.Status = max(a.Status, b.Status)
	a.ExitReady = a.ExitReady || b.ExitReady
	a.Forced = a.Forced || b.Forced
	a.Judged = a.Judged || b.Judged
	a.Fenced = a.Fenced || b.Fenced
	a.Quarantined = a.Quarantined || b.Quarantined
	if b.UpNumber != 0 && (a.UpNumber == 0 || b.UpNumber < a.UpNumber) {
		a.UpNumber = b.UpNumber
	}
	return a
}

// A MemberView is a member and whether it can be reached.
type MemberView struct {
	Member
	Reachable bool     // there is no evidence against it
	Evidence  Evidence // the strongest against an unreachable member
}
