package sim

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// judge keeps the history that these invariants need:
//
//  1. After every step the machine's own invariants hold (membership's Machine.Check).
//  2. When a member marks a process of its cluster as fenced, or removes a process that has not
//     left, the lease of that process has ended.
//  3. A member's status moves along the table of legal moves. Steps may be skipped.
//  4. A member that has removed a process never lists that process as a member again.
//  5. No two members of a cluster get the same UpNumber. The exception: two leaders assigned it,
//     and one of the two has been downed or is about to be.
//  6. UpCounter, RemovalCounter and each process's own count in the view's version never fall.
type judge struct {
	fenced   map[*Node]transport.Address // the first member that fenced the node
	ages     map[age]transport.Address   // the first member that had the age
	grants   map[grant]transport.Address // the node that first had the grant: the leader
	versions map[uint64]string           // of the table, as it was first seen
	downed   map[transport.Address]bool  // nodes that a member ever saw downed, or removed without having left
	reach    [membership.Removed + 1][membership.Removed + 1]bool
}

type age struct {
	founder transport.Address
	number  uint32
}

type grant struct {
	age
	to transport.Address
}

func newJudge() judge {
	j := judge{fenced: make(map[*Node]transport.Address), ages: make(map[age]transport.Address), grants: make(map[grant]transport.Address), downed: make(map[transport.Address]bool), versions: make(map[uint64]string)}
	for from := range j.reach {
		j.reach[from][from] = true
		for to := range j.reach {
			j.reach[from][to] = from == to || membership.Status(from).CanBecome(membership.Status(to))
		}
	}
	for via := range j.reach {
		for from := range j.reach {
			for to := range j.reach {
				j.reach[from][to] = j.reach[from][to] || j.reach[from][via] && j.reach[via][to]
			}
		}
	}
	return j
}

type checker struct{ *World }

func (w checker) check(n *Node, out *membership.Output) {
	if w.err != nil {
		return
	}
	if t := n.table(); t != nil {
		w.checkTable(n, t, out)
		return
	}
	if out.LeaseChanged {
		if by, ok := w.judge.fenced[n]; ok && w.Lease(n) && w.doneWithout(n) {
			w.fail(w.unsafe(n, by))
			return
		}
	}
	g := n.gossip()
	if !w.config.Unchecked && (g != n.state || out.LeaseChanged) {
		if err := n.machine.Check(); err != nil {
			w.fail(fmt.Errorf("invariant 1: %v: %w", n.Address, err))
			return
		}
	}
	was := n.state
	n.state = g
	if g == nil || g == was || w.err != nil {
		return
	}
	w.checkFenced(n, g)
	if !w.config.Unchecked && w.err == nil {
		if err := w.checkMoves(n, was, g); err != nil {
			w.fail(fmt.Errorf("%v: %w\nbefore: %v\nafter:  %v", n.Address, err, was, g))
		}
	}
}

func (w checker) checkFenced(n *Node, g *gossip.State) {
	for i := range g.Members {
		if r := &g.Members[i]; r.Fenced {
			w.fence(n, r.Address, g.Founder)
		}
	}
	for i := range g.Tombstones {
		if t := &g.Tombstones[i]; !t.Left {
			w.fence(n, t.Node, g.Founder)
		}
	}
}

// doneWithout reports whether a running process of n's cluster lacks member n or has fenced n. If all
// members that fenced n have ended, the others may keep n.
func (w checker) doneWithout(n *Node) bool {
	mine := n.gossip()
	for _, o := range w.nodes {
		if o == n || o.ended {
			continue
		}
		g := o.gossip()
		if g == nil || mine == nil || g.Founder != mine.Founder {
			continue
		}
		if r, ok := g.Member(n.Address); !ok || r.Fenced {
			return true
		}
	}
	return false
}

// fence records that the node by has fenced or removed the node a, and checks that the lease of a
// has ended. If a has ended or its cluster has another founder, as after a lost Welcome, fence does
// nothing.
func (w checker) fence(by *Node, a transport.Address, founder transport.Address) {
	o := w.byName[a]
	if o == nil || o.ended {
		return
	}
	g := o.gossip()
	if g == nil || g.Founder != founder {
		return
	}
	if _, known := w.judge.fenced[o]; !known {
		w.judge.fenced[o] = by.Address
	}
	if w.Lease(o) {
		w.fail(w.unsafe(o, by.Address))
	}
}

func (w checker) unsafe(n *Node, by transport.Address) error {
	left := "without end"
	if !n.lease.IsZero() {
		left = "for " + n.lease.Sub(n.clock.local(w.now)).String()
	}
	return fmt.Errorf("invariant 2: %v is fenced or removed at %v, but its lease still lasts %s", n.Address, by, left)
}

func (w checker) checkAges(n *Node, g *gossip.State) error {
	for i := range g.Members {
		if g.Members[i].Status == membership.Down {
			w.judge.downed[g.Members[i].Address] = true
		}
	}
	// A gone member is downed, fenced and removed in one step, so no state shows it Down. It may be
	// alive if it only stood still.
	for i := range g.Tombstones {
		if t := &g.Tombstones[i]; !t.Left {
			w.judge.downed[t.Node] = true
		}
	}
	for i := range g.Members {
		m := &g.Members[i]
		if m.UpNumber == 0 {
			continue
		}
		key := age{g.Founder, m.UpNumber}
		if _, ok := w.judge.grants[grant{key, m.Address}]; ok {
			continue
		}
		w.judge.grants[grant{key, m.Address}] = n.Address
		first, ok := w.judge.ages[key]
		if !ok {
			w.judge.ages[key] = m.Address
			continue
		}
		if by := w.judge.grants[grant{key, first}]; !w.judge.downed[by] && !w.judge.downed[n.Address] {
			return fmt.Errorf("invariant 5: %v has UpNumber %d from %v, and %v has the same number from %v", first, m.UpNumber, by, m.Address, n.Address)
		}
	}
	return nil
}

// checkMoves checks invariants 3 to 6 between two successive states of n.
func (w checker) checkMoves(n *Node, was, g *gossip.State) error {
	if err := w.checkAges(n, g); err != nil {
		return err
	}
	if was == nil || was.Founder != g.Founder {
		return nil
	}
	if was.UpCounter > g.UpCounter || was.RemovalCounter > g.RemovalCounter || was.Version.Count(n.Address) > g.Version.Count(n.Address) {
		return fmt.Errorf("invariant 6: UpCounter, RemovalCounter or the process's own count in the version fell")
	}
	i, j := 0, 0
	for i < len(was.Members) || j < len(g.Members) {
		switch c := compareMembers(was.Members, g.Members, i, j); {
		case c < 0: // gone
			if !buried(g, was.Members[i].Address) && g.RemovalCounter == was.RemovalCounter {
				return fmt.Errorf("invariant 4: member %v disappeared without being removed", was.Members[i].Address)
			}
			n.removed[was.Members[i].Address] = true
			i++
		case c > 0: // new
			if n.removed[g.Members[j].Address] {
				return fmt.Errorf("invariant 4: %v is a member again after its removal", g.Members[j].Address)
			}
			j++
		default:
			if from, to := was.Members[i].Status, g.Members[j].Status; !w.judge.reach[from][to] {
				return fmt.Errorf("invariant 3: status of %v changed from %v to %v, which is not legal", g.Members[j].Address, from, to)
			}
			if was.Members[i].Fenced && !g.Members[j].Fenced {
				return fmt.Errorf("invariant 3: %v was fenced and is not now", g.Members[j].Address)
			}
			i++
			j++
		}
	}
	return nil
}

func buried(g *gossip.State, a transport.Address) bool {
	for _, t := range g.Tombstones {
		if t.Node == a {
			return true
		}
	}
	return false
}

func compareMembers(a, b []membership.Member, i, j int) int {
	switch {
	case i == len(a):
		return 1
	case j == len(b):
		return -1
	}
	return a[i].Compare(b[j].Address)
}
