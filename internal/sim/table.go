package sim

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/runtime/membership"
)

// TableStats count what the membership table did.
type TableStats struct{ Reads, Writes, Conflicts, Alive, Failed int }

// tableStore has the membership table of a world. Reaching it does not depend on the broker.
type tableStore struct{ *World }

// TableDown makes the table unreachable for all processes, or reachable again.
func (w *World) TableDown(down bool) {
	w.trace.line(w.now, "the table is down: %v", down)
	w.tableDown = down
}

// CutTable makes the table unreachable for one process, or reachable again.
func (w *World) CutTable(n *Node, cut bool) {
	w.trace.line(w.now, "the table is out of the reach of %v: %v", n.Address, cut)
	n.tableCut = cut
}

// SetTable sets the membership table.
func (w *World) SetTable(t *rows.Table) { w.table = t }

// Table is the membership table now.
func (w *World) Table() *rows.Table { return w.table }

func (w tableStore) reaches(n *Node) bool { return !w.tableDown && !n.tableCut && !n.ended }

func (w tableStore) took() time.Duration {
	return time.Duration(1 + w.random.Int64N(int64(w.config.TableTime)))
}

func (w tableStore) carry(n *Node, out *membership.Output) {
	if r := out.ReadTable; r != nil {
		w.request(n, r.Within, func() membership.Input {
			w.TableStats.Reads++
			return membership.TableRows{Number: r.Number, Table: tableStore{w.World}.read()}
		}, membership.TableRows{Number: r.Number, Reason: "the table is out of reach"})
	}
	if r := out.WriteTable; r != nil {
		w.request(n, r.Within, func() membership.Input { return w.write(n, r) }, membership.TableWritten{Number: r.Number, Reason: "the table is out of reach"})
	}
	if r := out.WriteAlive; r != nil {
		w.request(n, r.Within, func() membership.Input { return w.alive(n, r) }, membership.TableWritten{Number: r.Number, Reason: "the table is out of reach"})
	}
}

// request lets the table carry out do, and sends the answer to n. The request and the answer may be
// lost. A request may outlive n.
func (w tableStore) request(n *Node, within time.Duration, do func() membership.Input, unknown membership.Input) {
	trouble := func() bool { return w.config.TableTrouble > 0 && w.random.Float64() < w.config.TableTrouble }
	give := func(after time.Duration, in membership.Input) {
		w.After(after, func() {
			defer w.catch()
			n.step(w.World, in)
		})
	}
	if !w.reaches(n) || trouble() {
		w.TableStats.Failed++
		give(within, unknown)
		if w.config.TableLate > 0 && w.random.IntN(3) == 0 { // the request arrives late all the same
			w.After(time.Duration(w.random.Int64N(int64(w.config.TableLate))), func() {
				if !w.tableDown && !n.tableCut {
					do()
				}
			})
		}
		return
	}
	asked := w.now
	w.After(w.took(), func() {
		if !w.tableDown && !n.tableCut {
			if in := do(); !trouble() {
				give(w.took(), in)
				return
			}
		}
		w.TableStats.Failed++
		give(max(0, asked+within-w.now), unknown)
	})
}

func (w tableStore) write(n *Node, r *membership.TableWrite) membership.TableWritten {
	if w.table.Version != r.Version {
		w.TableStats.Conflicts++
		return membership.TableWritten{Number: r.Number, Conflict: true}
	}
	w.TableStats.Writes++
	version := r.Version + uint64(max(1, len(r.Rows)))
	if w.config.TableGaps {
		version += uint64(w.random.IntN(3))
	}
	before := w.table
	w.table = before.With(version, r.Rows, r.Delete)
	if w.olds = append(w.olds, w.table); len(w.olds) > 8 {
		w.olds = w.olds[1:]
	}
	w.trace.line(w.now, "%v writes version %d", n.Address, int(version))
	if w.trace.tell != nil {
		for i := range r.Rows {
			w.trace.tell(fmt.Sprintf("%10.6fs -- %v", w.now.Seconds(), &r.Rows[i]))
		}
		w.trace.tell(fmt.Sprintf("%10.6fs -- deleted=%v", w.now.Seconds(), r.Delete))
	}
	for _, a := range r.Delete {
		w.judgeWrite(n, before.Row(a), &rows.Row{}, true)
	}
	for i := range r.Rows {
		was := before.Row(r.Rows[i].Address)
		if was == nil {
			was = &rows.Row{}
		}
		w.judgeWrite(n, was, &r.Rows[i], false)
	}
	return membership.TableWritten{Number: r.Number, Done: true, Version: version}
}

func (w tableStore) alive(n *Node, r *membership.TableAlive) membership.TableWritten {
	row := w.table.Row(n.Address)
	if row == nil || row.Gone() {
		return membership.TableWritten{Number: r.Number, Conflict: true}
	}
	w.TableStats.Alive++
	next := *row
	next.Alive = r.At
	w.table = w.table.With(w.table.Version, []rows.Row{next}, nil)
	return membership.TableWritten{Number: r.Number, Done: true}
}

// read returns the present table or, with Config.TableGaps, at times an earlier one. In an unchecked
// run all readers of a version get the first reader's table, I-am-alives included.
func (w tableStore) read() *rows.Table {
	if w.known != nil && w.known.Version == w.table.Version {
		return w.known
	}
	if w.config.TableGaps && len(w.olds) > 0 && w.random.IntN(4) == 0 {
		return w.olds[w.random.IntN(len(w.olds))]
	}
	if w.config.Unchecked {
		w.known = w.table
	}
	return w.table
}

// judgeWrite checks a write's invariants. The node by has written row in place of the former row
// was, or has deleted it.
//
//  1. A status moves along the table of legal moves. Deleted rows are fenced or removed.
//  2. No two members get the same age number.
//  3. The lease of a fenced member is over.
func (w tableStore) judgeWrite(by *Node, was, row *rows.Row, deleted bool) {
	if deleted {
		if !was.Fenced && was.Status != membership.Removed {
			w.fail(fmt.Errorf("table invariant 1: %v deletes the row of %v, which is neither fenced nor removed", by.Address, was))
		}
		return
	}
	if !w.judge.reach[was.Status][row.Status] && !(row.Status == membership.Removed && was.Status != membership.Down) || was.Fenced && !row.Fenced {
		w.fail(fmt.Errorf("table invariant 1: %v writes row %v in place of %v, which is not a legal change", by.Address, row, was))
	}
	if row.UpNumber != 0 && was.UpNumber == 0 {
		key := age{number: row.UpNumber}
		if first, ok := w.judge.ages[key]; ok {
			w.fail(fmt.Errorf("table invariant 2: %v gets the age number of %v", row.Address, first))
		}
		w.judge.ages[key] = row.Address
	}
	o := w.byName[row.Address]
	if row.Fenced && o != nil {
		w.judge.fenced[o] = by.Address
		if w.Lease(o) {
			w.fail(fmt.Errorf("table invariant 3: %w", checker(w).unsafe(o, by.Address)))
		}
	}
}

// shape formats what all tables of a version share.
func shape(t *rows.Table) string {
	text := ""
	for i := range t.Rows {
		r := &t.Rows[i]
		text += fmt.Sprintf("%v %v %v %v %d;", r.Address, r.Status, r.Fenced, r.Quarantined, len(r.Suspicions))
	}
	return text
}

// checkTable checks invariants 3 and 4 after a step of node n with table t:
//
//  3. A node that was fenced never gets a lease again.
//  4. The version of a node's table never falls, and each version is the same at all nodes.
func (w checker) checkTable(n *Node, t *rows.Table, out *membership.Output) {
	if out.LeaseChanged {
		if by, ok := w.judge.fenced[n]; ok && w.Lease(n) {
			w.fail(fmt.Errorf("table invariant 3: %w", w.unsafe(n, by)))
			return
		}
	}
	if !w.config.Unchecked {
		if err := n.machine.Check(); err != nil {
			w.fail(fmt.Errorf("invariant 1: %v: %w", n.Address, err))
			return
		}
	}
	if w.config.Unchecked && (w.known == nil || t.Version > w.known.Version) {
		w.known = t
	}
	was := n.lastTable
	n.lastTable = t
	if t == was || w.config.Unchecked {
		return
	}
	if was != nil && t.Version < was.Version {
		w.fail(fmt.Errorf("table invariant 4: the version at %v fell from %d to %d", n.Address, was.Version, t.Version))
	}
	if was == nil || was.Version != t.Version {
		s := shape(t)
		if first, ok := w.judge.versions[t.Version]; ok && first != s {
			w.fail(fmt.Errorf("table invariant 4: version %d at %v has the rows %s, but had the rows %s where it was first seen", t.Version, n.Address, s, first))
		}
		w.judge.versions[t.Version] = s
	}
}
