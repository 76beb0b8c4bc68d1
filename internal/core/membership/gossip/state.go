package gossip

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/transport"
)

// A State is the cluster's state as members send it to each other. A State never changes once it is
// built: every change makes a new State. So snapshots, messages and goroutines may share it.
type State struct {
	Founder transport.Address // the node that formed the cluster; never changes
	Members []Member          // all that are not removed
	Rows    []ObserverRow     // the observers' records of members that they cannot reach
	// UpCounter is the highest UpNumber given out; it never falls.
	UpCounter uint32
	// RemovalCounter numbers the removals; it never falls.
	RemovalCounter uint64
	Tombstones     []Tombstone // the nodes that were removed lately
	Ruling         Ruling      // the last split that a lease decided
	Seen           SeenSet     // the members that have this very version
	Version        VectorClock // the number of changes by each node

	summary *summaryOnce // conclusions from all fields but Seen; nil means none are cached
	// ownMembers is set within ChangedBy once Members is a copy that the change may modify.
	ownMembers bool
}

// New returns the state of a cluster that its founder has just formed.
func New(founder Member) *State {
	g := &State{Founder: founder.Address}
	return g.ChangedBy(founder.Address, func(g *State) { g.SetMember(founder) })
}

// Member returns the member with that address.
func (g *State) Member(a transport.Address) (Member, bool) {
	i, ok := g.Index(a)
	if !ok {
		return Member{}, false
	}
	return g.Members[i], true
}

// Named returns the members with a name: one for each incarnation.
func (g *State) Named(name string) []Member {
	from, _ := g.Index(transport.Address{Name: name})
	to := from
	for to < len(g.Members) && g.Members[to].Name == name {
		to++
	}
	return g.Members[from:to]
}

// Index returns the index of a member in Members. It is slices.BinarySearchFunc written out,
// because it is called often and copying a member is slow.
func (g *State) Index(a transport.Address) (int, bool) {
	low, high := 0, len(g.Members)
	for low < high {
		middle := (low + high) / 2
		if g.Members[middle].Address.Compare(a) < 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < len(g.Members) && g.Members[low].Address == a
}

// Addresses returns the addresses of the members at these indexes.
func (g *State) Addresses(indexes []int) []transport.Address {
	nodes := make([]transport.Address, len(indexes))
	for i, p := range indexes {
		nodes[i] = g.Members[p].Address
	}
	return nodes
}

// Tombstone returns the tombstone of a recently removed node.
func (g *State) Tombstone(a transport.Address) (Tombstone, bool) {
	i, ok := slices.BinarySearchFunc(g.Tombstones, a, compareTombstone)
	if !ok {
		return Tombstone{}, false
	}
	return g.Tombstones[i], true
}

// Removed reports whether the state has a tombstone of the node.
func (g *State) Removed(a transport.Address) bool {
	_, ok := g.Tombstone(a)
	return ok
}

// Forgotten reports whether a node is neither a member nor tombstoned. Only then does
// the vector clock g.Version lose the node's count. If removal dropped the count, a state with a
// member admitted by that node and a state without it could have the same version.
func (g *State) Forgotten(a transport.Address) bool {
	_, ok := g.Member(a)
	return !ok && !g.Removed(a)
}

// SeenBy reports whether a member has seen this version.
func (g *State) SeenBy(a transport.Address) bool {
	i, ok := g.Index(a)
	return ok && g.Seen.Has(i)
}

// Records returns all records of one observer.
func (g *State) Records(observer transport.Address) []Record {
	if len(g.Rows) == 0 {
		return nil
	}
	i, ok := slices.BinarySearchFunc(g.Rows, observer, compareRow)
	if !ok {
		return nil
	}
	return g.Rows[i].Records
}

// Record returns one observer's record about subject.
func (g *State) Record(observer, subject transport.Address) (Record, bool) {
	return RecordOf(g.Records(observer), subject)
}

func (g *State) observer(subject transport.Address) transport.Address {
	for _, row := range g.Rows {
		if m, ok := g.Member(row.Observer); !ok || m.Status == Down {
			continue
		}
		if HasRecord(row.Records, subject) {
			return row.Observer
		}
	}
	return transport.Address{}
}

// Electorate returns the members with a vote: the Up and Leaving members, and some Down members. A
// Down member keeps its vote until it is fenced, if it was downed by the side with the lease for
// splits: that side may have been the smaller one.
func (g *State) Electorate() []transport.Address {
	var nodes []transport.Address
	for _, r := range g.Members {
		if r.Status == Up || r.Status == Leaving || r.Status == Down && r.Judged && !r.Fenced {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}

// OldestOf returns the oldest of the nodes that are members, or zero.
func (g *State) OldestOf(nodes []transport.Address) transport.Address {
	var oldest Member
	for _, node := range nodes {
		if r, ok := g.Member(node); ok && (oldest.IsZero() || r.CompareAge(oldest) < 0) {
			oldest = r
		}
	}
	return oldest.Address
}

// Clone returns a copy without cached conclusions, so that its fields may be set.
func (g *State) Clone() *State {
	next := *g
	next.summary = nil
	return &next
}

// ChangedBy returns a copy of g modified by change: a new version, seen only by self. change may
// replace slices, but must not write to their elements, which are shared.
func (g *State) ChangedBy(self transport.Address, change func(*State)) *State {
	next := *g
	next.summary = &summaryOnce{}
	change(&next)
	next.ownMembers = false
	next.Version = next.Version.Increment(self)
	next.Seen = NewSeenSet(len(next.Members))
	if i, ok := next.Index(self); ok {
		next.Seen.Add(i)
	}
	return &next
}

// SetMember replaces or adds a member's record. Use it only within ChangedBy.
func (g *State) SetMember(m Member) {
	i, ok := g.Index(m.Address)
	if !g.ownMembers {
		g.Members, g.ownMembers = slices.Clone(g.Members), true
	}
	if ok {
		g.Members[i] = m
		return
	}
	g.Members = slices.Insert(g.Members, i, m)
}

// SetStatus moves a member to another status, which must be a legal move. Use it only within
// ChangedBy.
func (g *State) SetStatus(r Member, to Status) {
	if !r.Status.CanBecome(to) {
		invariant.Failf("member %v must not become %v", r, to)
	}
	r.Status = to
	g.SetMember(r)
}

// Remove replaces a member by a tombstone; left says that the member left in order. Use it only
// within ChangedBy.
func (g *State) Remove(a transport.Address, left bool) {
	g.RemovalCounter++
	i, _ := slices.BinarySearchFunc(g.Tombstones, a, compareTombstone)
	g.Tombstones = slices.Insert(slices.Clone(g.Tombstones), i, Tombstone{a, g.RemovalCounter, left})
	g.bury()
}

// bury drops old tombstones, and all other data of tombstoned nodes. It copies slices before
// changing them.
func (g *State) bury() {
	g.Tombstones = slices.DeleteFunc(slices.Clone(g.Tombstones), func(t Tombstone) bool {
		return t.Number+MaxTombstones <= g.RemovalCounter
	})
	g.Members = slices.DeleteFunc(slices.Clone(g.Members), func(m Member) bool { return g.Removed(m.Address) })
	g.Rows = pruneRows(slices.Clone(g.Rows), g.Removed)
	g.Version = g.Version.Prune(g.Forgotten)
}

// WithSeen returns a copy of g in which member a has seen the state; g itself if a is no member or has
// seen it already. The version stays the same.
func (g *State) WithSeen(a transport.Address) *State {
	i, ok := g.Index(a)
	if !ok || g.Seen.Has(i) {
		return g
	}
	next := *g
	next.Seen = g.Seen.with(i)
	return &next
}

// WithAllSeen returns g with the members in s added to those that have seen the state.
func (g *State) WithAllSeen(s SeenSet) *State {
	if g.Seen.missing(s) < 0 {
		return g
	}
	next := *g
	next.Seen = g.Seen.union(s)
	return &next
}

// Merge joins two states of one cluster. For a member in both states, the higher status is kept. A
// member in only one state is kept unless the other state has the member's tombstone. Before the
// two versions are compared, they lose the counts of forgotten nodes; otherwise such a count would
// make versions differ forever. Seen belongs to one version, and is kept only if the result has
// that version.
func (g *State) Merge(o *State) *State {
	m, _ := g.Join(o)
	return m
}

// Join is Merge, and also returns the relation of g's version to o's.
//
// Only concurrent states need merging, because of two facts. If one version covers another, its
// state contains all of the other's state. No two different states have the same version. For this,
// versions keep the counts of removed nodes as long as their tombstones.
func (g *State) Join(o *State) (*State, Ordering) {
	order := g.Version.Compare(o.Version)
	switch {
	case order == Same && len(g.Members) == len(o.Members):
		return g.WithAllSeen(o.Seen), Same
	case order == After:
		return g, After
	case order == Before:
		return o, Before
	}
	return JoinInFull(g, o)
}

// Summary returns the conclusions from the state under a rule.
func (g *State) Summary(rule Rule) *Summary {
	if g.summary == nil {
		return newSummary(g, rule)
	}
	g.summary.once.Do(func() { g.summary.made = newSummary(g, rule) })
	if g.summary.made.rule != rule {
		return newSummary(g, rule)
	}
	return g.summary.made
}

// CheckUnder is Check, but caches the result for all states that differ only in Seen.
func (g *State) CheckUnder(rule Rule) error {
	if g == nil {
		return fmt.Errorf("gossip: no state")
	}
	if err := g.Summary(rule).malformed; err != nil {
		return err
	}
	return checkSeen(g)
}

// Check returns an error if the state violates an invariant, as a received state may.
func (g *State) Check() error {
	if g == nil {
		return fmt.Errorf("gossip: no state")
	}
	if err := checkAllButSeen(g); err != nil {
		return err
	}
	return checkSeen(g)
}

// Received prepares a state that was decoded from a message for use, and checks it.
func (g *State) Received() error {
	g.summary = &summaryOnce{}
	return g.Check()
}

// String returns the members, the version, and the members that have seen the version.
func (g *State) String() string {
	if g == nil {
		return "nothing"
	}
	members := make([]string, len(g.Members))
	for i, m := range g.Members {
		members[i] = fmt.Sprintf("%s %v", m.Name, m.Status)
	}
	return fmt.Sprintf("{%s} version [%v] seen [%s]", strings.Join(members, ", "), g.Version, g.Seen.namesOf(g.Members))
}

// Preformed returns the state of a cluster that has long been formed. Its members are all
// Up, the first is the oldest, and all have seen the state. It is for simulations.
func Preformed(members []Member) *State {
	g := &State{Founder: members[0].Address, UpCounter: uint32(len(members))}
	for i, r := range members {
		r.Status, r.UpNumber = Up, uint32(i+1)
		g.Members = append(g.Members, r)
	}
	slices.SortFunc(g.Members, func(a, b Member) int { return a.Compare(b.Address) })
	g.Seen, g.summary = FullSeenSet(len(g.Members)), &summaryOnce{}
	for _, r := range g.Members {
		g.Version = append(g.Version, ClockEntry{r.Address, 2})
	}
	return g
}
