// Package rows has the membership table as values: its rows, and the version that orders all of
// its states. Package table decides with them, package message sends them, and the stores keep
// them.
package rows

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A Row is one member in the table. Its lists are shared: do not modify them.
type Row struct {
	// Member is the node as all views show it. Its status is Removed after it left in order, and
	// Down after it was declared dead; Fenced is set once it certainly runs no more turns.
	gossip.Member
	Compat  []gossip.KeyValue // the settings that must be equal at all members
	Founder transport.Address // who made the first row of the table
	// Server is the broker instance through which the member serves.
	Server string
	// Suspicions are the votes against the member, from the oldest to the youngest.
	Suspicions []Suspicion
	// Touched is the version that the member's last write of its own row replaced, plus 1.
	Touched uint64
	// Started, Alive and Ended are when the member made its row, when it last wrote that it is
	// alive, and when it left or was declared dead, by the clocks of the writers. Deaths and
	// fences depend only on changes of Alive.
	Started, Alive, Ended time.Time
}

// A Suspicion is a member's vote that another member is dead.
type Suspicion struct {
	By transport.Address
	At time.Time // by the voter's clock
}

// Gone reports whether the node is no longer a member.
func (r *Row) Gone() bool { return r.Status >= gossip.Down }

// Active reports whether the node is a full member, which probes, votes and is probed.
func (r *Row) Active() bool { return r.Status == gossip.Up || r.Status == gossip.Leaving }

// String is for transcripts and logs.
func (r *Row) String() string {
	text := r.Member.String()
	if r.Fenced {
		text += " fenced"
	}
	for _, s := range r.Suspicions {
		text += " suspected-by=" + s.By.Name
	}
	return text
}

// A Table is all rows at one version. It never changes.
type Table struct {
	// Version grows with each write except I-am-alive writes, by one or more. 0 is the empty
	// table.
	Version uint64
	Rows    []Row // by address

	summary summary
	applied applied
}

// Index returns the index of the row of a node.
func (t *Table) Index(a transport.Address) (int, bool) {
	return slices.BinarySearchFunc(t.Rows, a, func(r Row, a transport.Address) int { return r.Compare(a) })
}

// Row returns the row of a node, or nil.
func (t *Table) Row(a transport.Address) *Row {
	if t == nil {
		return nil
	}
	if i, ok := t.Index(a); ok {
		return &t.Rows[i]
	}
	return nil
}

// With returns the table at a later version: set replaces or adds rows, and the rows of the nodes
// in deleted are left out. set is sorted by address.
func (t *Table) With(version uint64, set []Row, deleted []transport.Address) *Table {
	next := &Table{Version: version, Rows: make([]Row, 0, len(t.Rows)+len(set))}
	for i, j := 0, 0; i < len(t.Rows) || j < len(set); {
		switch {
		case j == len(set) || i < len(t.Rows) && t.Rows[i].Compare(set[j].Address) < 0:
			if !slices.Contains(deleted, t.Rows[i].Address) {
				next.Rows = append(next.Rows, t.Rows[i])
			}
			i++
		case i == len(t.Rows) || t.Rows[i].Compare(set[j].Address) > 0:
			next.Rows = append(next.Rows, set[j])
			j++
		default:
			next.Rows = append(next.Rows, set[j])
			i++
			j++
		}
	}
	return next
}

// applied holds the results of applying a change, by the table to which it was applied. Members of
// one process that know the same table and get the same change share the result.
type applied struct {
	mu   sync.Mutex
	made map[*Table]*Table
	one  bool // see ApplyAlike
}

// ApplyAlike makes Apply return the same table for all tables to which change t is applied: the
// result for the first of them, with its I-am-alives. This lets large simulations share tables.
func (t *Table) ApplyAlike() { t.applied.one = true }

// Apply returns what [Table.With] returns for the version and the rows of change, but shares equal
// results.
func (t *Table) Apply(change *Table, deleted []transport.Address) *Table {
	a := &change.applied
	a.mu.Lock()
	defer a.mu.Unlock()
	key := t
	if a.one {
		key = nil
	}
	next := a.made[key]
	if next == nil {
		if a.made == nil {
			a.made = make(map[*Table]*Table, 1)
		}
		next = t.With(change.Version, change.Rows, deleted)
		a.made[key] = next
	}
	return next
}

// Sorted sorts rows by address, for stores that return another order.
func Sorted(list []Row) []Row {
	slices.SortFunc(list, func(a, b Row) int { return a.Compare(b.Address) })
	return list
}

// String is for transcripts and logs.
func (t *Table) String() string {
	if t == nil {
		return "no table"
	}
	var list []string
	for i := range t.Rows {
		list = append(list, t.Rows[i].String())
	}
	return fmt.Sprintf("version %d: %s", t.Version, strings.Join(list, ", "))
}

// Check returns an error if no sequence of legal writes leads to the table.
func (t *Table) Check() error {
	for i := range t.Rows {
		r := &t.Rows[i]
		switch {
		case i > 0 && t.Rows[i-1].Compare(r.Address) >= 0:
			return fmt.Errorf("table: rows %v and %v are not sorted by address", t.Rows[i-1].Address, r.Address)
		case transport.CheckName("node", r.Name) != nil:
			return fmt.Errorf("table: %w", transport.CheckName("node", r.Name))
		case r.Status == gossip.NoStatus || r.Status > gossip.Removed:
			return fmt.Errorf("table: member %v has status %d, which no member has", r.Address, r.Status)
		case uint64(r.UpNumber) > t.Version || r.Active() && r.UpNumber == 0:
			return fmt.Errorf("table: member %v has age %d, which is above version %d of the table", r.Address, r.UpNumber, t.Version)
		case r.Fenced && r.Status != gossip.Down:
			return fmt.Errorf("table: member %v is fenced, but its status is %v and not Down", r.Address, r.Status)
		}
	}
	return nil
}

// Preformed returns the table of a cluster whose members have long been active. The rows come in
// the order of ages; statuses and ages are set here. It is for simulations.
func Preformed(list []Row) *Table {
	t := &Table{Version: uint64(len(list)), Rows: list}
	founder := list[0].Address
	for i := range list {
		list[i].Status, list[i].UpNumber, list[i].Founder = gossip.Up, uint32(i+1), founder
	}
	Sorted(t.Rows)
	return t
}
