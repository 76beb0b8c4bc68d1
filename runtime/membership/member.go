package membership

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// A Status is how far a member's life is. Their order is the order of
// merging: of two records of one member the higher status is the later.
type Status uint8

// The statuses.
const (
	// NoStatus is that of a node that is no member, or not yet.
	NoStatus Status = iota
	// Joining: admitted; waits for the leader.
	Joining
	// WeaklyUp: serves although the view has not converged. See
	// Config.WeaklyUpAfter.
	WeaklyUp
	// Up: a full member.
	Up
	// Leaving: asked to leave; gives away what it has.
	Leaving
	// Exiting: gave everything away; is removed next.
	Exiting
	// Down: judged dead, or told to go; is removed next and stops if it lives.
	Down
	// Removed is the end: no member any more, and this incarnation never again.
	Removed
)

// String names the status.
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
	Status Status   // how far it is between joining and removal
	Roles  []string // sorted
	// UpNumber is the member's age: the leader numbers members as they become
	// Up, and a lower number is older. 0 before that.
	UpNumber uint32
	// ExitReady: a Leaving member has nothing left to hand over.
	ExitReady bool
	// Forced: a Down member was downed by an operator, who answers for it.
	Forced bool
	// Judged: a Down member was downed by a side that has taken the lease for it.
	// See DowningLeaseMajority.
	Judged bool
	// Fenced: a Down member certainly runs no turns any more, for its lease has
	// ended: its shards may be given to others. It is removed only after that.
	Fenced bool
	// Quarantined: messages that had to arrive could not be delivered to the member.
	// It counts as unreachable from then on, and can only become Down or be removed.
	Quarantined bool
	// Meta is what the member told at joining, sorted by key.
	Meta []KeyValue
}

// HasRole tells whether the member has the role; the empty role is everyone's.
func (m Member) HasRole(role string) bool {
	return role == "" || slices.Contains(m.Roles, role)
}

// MayRun tells whether the member may still run turns. Nothing of it may be given
// to others before that ends, nor before it is removed.
func (m Member) MayRun() bool { return m.Status != Down || !m.Fenced }

// MetaValue returns the value of a key of Meta, or "".
func (m Member) MetaValue(key string) string {
	i, ok := slices.BinarySearchFunc(m.Meta, key, func(kv KeyValue, key string) int { return cmp.Compare(kv.Key, key) })
	if !ok {
		return ""
	}
	return m.Meta[i].Value
}

// String is the address, the status and the age: "a#0000000000000001 up 3".
func (m Member) String() string {
	if m.UpNumber == 0 {
		return fmt.Sprintf("%v %v", m.Address, m.Status)
	}
	return fmt.Sprintf("%v %v %d", m.Address, m.Status, m.UpNumber)
}

// CompareAge orders members from the oldest to the youngest; those that never
// were Up come last, by address.
func (m Member) CompareAge(o Member) int {
	// 0 wraps to the highest number: no age is the youngest.
	if c := cmp.Compare(m.UpNumber-1, o.UpNumber-1); c != 0 {
		return c
	}
	return m.Compare(o.Address)
}
