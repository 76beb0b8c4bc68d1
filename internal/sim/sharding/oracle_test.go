package sharding

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A value is the state of an entity: the number of its turns.
type value struct{ turns uint64 }

// An oracle sees all turns of all processes. It checks:
//  1. of the processes with a lease, a shard is open at one at most, and under
//     an epoch at one only; at most one turn an entity is under way there;
//  2. an entity's state is what its turns made of it, unless all who had a copy
//     have ended or were fenced;
//  3. per (thread, entity), turns begin in the order in which they were asked for;
//  4. nothing runs twice, and what is said not to have run never does;
//  5. nothing is lost, unless the plan allows it;
//  6. epochs and terms grow;
//  7. where members leave in order and none is killed, no state is ever lost, and pins and
//     the pause of rebalancing stay in force;
//  8. no shard moves by load beyond the budget, unless it may be overdrawn, nor soon after it came.
//
// All but the fourth and the fifth hold in each life of the cluster by itself: another one
// begins where a process is cut off from all members as it joins, and ends when it meets
// the first.
type oracle struct {
	w       *world
	lives   map[transport.Address]*life // by founder
	ran     map[string]bool
	asked   map[string]bool
	refused map[string]bool // calls that were answered with "did not run"
	strikes int
	pinning map[placement.ShardID]bool             // shards for whose pins a request is under way, or was not answered
	pinned  map[placement.ShardID]string           // by shard, the home of the last granted request
	paused  bool                                   // a pause of rebalancing was granted
	onMove  func(at *process, e coordinator.Event) // called when a move begins

	spent map[*process][]started        // moves by load in the last hour, by coordinator
	came  map[placement.ShardID]arrival // the latest arrival of each shard

	counts       map[coordinator.EventKind]int
	byLoad       int // moves by load
	sized        int // changes of the pool's size
	retired      int // instances that have ended in order
	cuts         int // barriers that timed out
	losses       int
	unknowns     int
	refusedTells int
	forgotten    int // entities that came back with an older state
	nested       int
	cancelled    int // turns that were found cancelled
}

// A life is what the oracle knows of one life of the cluster: see oracle.
type life struct {
	running  map[string]*process
	turns    map[string]uint64
	last     map[string]int // by thread and entity: the number of the last turn
	homes    map[activation]*process
	epochs   map[placement.ShardID]placement.Epoch // the highest epoch that opened
	terms    map[placement.Term]*process
	lost     map[placement.ShardID]bool // shards whose last copy may be lost
	forgiven map[string]bool            // entities whose next activation may have an older state
}

// life returns the life of the cluster to which a process belongs.
func (o *oracle) life(p *process) *life {
	var founder transport.Address
	if v := p.control.View(); v != nil {
		founder = v.Founder
	}
	l := o.lives[founder]
	if l == nil {
		l = &life{
			running: map[string]*process{}, turns: map[string]uint64{}, last: map[string]int{},
			homes: map[activation]*process{}, epochs: map[placement.ShardID]placement.Epoch{},
			terms: map[placement.Term]*process{}, lost: map[placement.ShardID]bool{}, forgiven: map[string]bool{},
		}
		o.lives[founder] = l
	}
	return l
}

type activation struct {
	placement.ShardID
	epoch placement.Epoch
}

func newOracle(w *world) *oracle {
	return &oracle{
		w: w, lives: map[transport.Address]*life{},
		ran: map[string]bool{}, asked: map[string]bool{}, refused: map[string]bool{},
		counts: map[coordinator.EventKind]int{}, strikes: w.plan.strikes,
		pinning: map[placement.ShardID]bool{}, pinned: map[placement.ShardID]string{},
		spent: map[*process][]started{}, came: map[placement.ShardID]arrival{},
	}
}

// payload identifies an operation by its thread, its entity and its number there.
func payload(thread, entity string, n int) string { return fmt.Sprintf("%s/%s/%d", thread, entity, n) }

func (o *oracle) ask(payload string) { o.asked[payload] = true }

// term records that a coordinator begins a term.
func (o *oracle) term(p *process, t placement.Term) {
	terms := o.life(p).terms
	if other := terms[t]; other != nil {
		o.w.fail("term %v begins at %s, and began at %s", t, p.name, other.name)
	}
	terms[t] = p
	delete(o.spent, p)
	if o.w.now.Sub(epochStart) > warmUp {
		o.w.hide(p)
	}
}

// event counts a coordinator's event, and strikes in the middle of moves.
func (o *oracle) event(p *process, e coordinator.Event) {
	o.counts[e.What]++
	w := o.w
	if e.What == coordinator.MoveStarted && o.onMove != nil {
		o.onMove(p, e)
	}
	if e.What != coordinator.MoveStarted || o.strikes == 0 || w.now.Sub(epochStart) < warmUp || !w.faulty || !w.one(2) {
		return
	}
	o.strikes--
	victims := []*process{p, w.process(e.Node)}
	if to := w.process(e.Peer); to != nil { // an ending instance of the pool has no new home
		victims = append(victims, to)
	}
	victim := victims[w.r.IntN(len(victims))]
	w.after(w.upTo(60*time.Millisecond), func() { w.strike(victim) })
}

// writeOff marks as lost the shards that only process p had, because p has ended or was fenced.
func (o *oracle) writeOff(p *process) {
	if p.written || !p.host {
		return
	}
	p.written = true
	for _, id := range o.w.ids {
		if p.shards[id].lastCopy() {
			o.w.log("%v may be lost with %s", id, p.name)
			if o.w.plan.together {
				o.w.fail("%v is lost with %s, which left in order", id, p.name)
			}
			o.life(p).lost[id] = true
		}
	}
}

// lastCopy reports whether the process may have the only copy of the shard's state.
func (s *hosted) lastCopy() bool {
	switch s.Core.State() {
	case region.Closed, region.Preparing, region.Forwarding:
		return false
	case region.Sent:
		if s.aborted == s.Core.MoveEpoch() {
			return true // this home gave the move up, so the new home gets the message to forget
		}
		for _, o := range s.process.w.procs {
			if o == s.process || o.written || !o.host {
				continue
			}
			other := o.shards[s.ID].Core
			if st := other.State(); (st == region.Prepared || st == region.Open) && other.MoveEpoch() == s.Core.MoveEpoch() {
				return false
			}
		}
	case region.Open, region.Draining, region.Prepared: // perhaps Ready is under way, after which the old home forgets
	}
	return true
}

// opened records that a shard runs at a process from now on.
func (o *oracle) opened(s *hosted) {
	p, epoch, l := s.process, s.Core.Epoch(), o.life(s.process)
	a := activation{s.ID, epoch}
	if other := l.homes[a]; other != nil && other != p {
		o.w.fail("%v at %v opens at %s, and opened at %s before", s.ID, epoch, p.name, other.name)
	}
	l.homes[a] = p
	if l.lost[s.ID] && !p.written {
		delete(l.lost, s.ID)
		for i := range entitiesAShard {
			l.forgiven[entity(s.ID, i)] = true
		}
	}
	if !p.leased() {
		return // the process runs no turn yet, and perhaps never
	}
	if epoch < l.epochs[s.ID] {
		o.w.fail("%v opens at %s under %v, and opened under %v", s.ID, p.name, epoch, l.epochs[s.ID])
	}
	l.epochs[s.ID] = epoch
	o.alone(s)
}

// alone checks that a shard is open at no other process where turns may begin.
func (o *oracle) alone(s *hosted) {
	for _, p := range o.w.procs {
		if p == s.process || !p.alive || !p.host || !p.leased() || o.life(p) != o.life(s.process) {
			continue
		}
		if other := p.shards[s.ID].Core; other.State() == region.Open || other.State() == region.Draining {
			o.w.fail("%v runs at %s under %v, and is %v at %s under %v",
				s.ID, s.process.name, s.Core.Epoch(), other.State(), p.name, other.Epoch())
		}
	}
}

// bounds checks that a shard holds no more calls than it may: those of its own queue, those that
// came into it out of mailboxes and barriers, and those behind barriers.
func (o *oracle) bounds(s *hosted) {
	l := o.w.plan.limits(s.ID.Kind)
	limit := l.Waiting*(1+len(o.w.procs)) + l.Mailbox*entitiesAShard
	if n := s.Core.Waiting(); n > limit {
		o.w.fail("%s: %d calls wait for %v, at most %d may", s.process.name, n, s.ID, limit)
	}
}

// lose records that an accepted call cannot run.
func (o *oracle) lose(e *wire.Envelope, format string, args ...any) {
	o.losses++
	what := fmt.Sprintf(format, args...)
	o.w.log("LOST %s: %s", label(e), what)
	if !o.w.plan.mayLose && e.Type == wire.TypeTell {
		o.w.fail("%s is lost: %s", label(e), what)
	}
}

// timedOut records that barriers have timed out. When several members leave, that may happen
// without a loss. A sender's old home may leave before the sender, and then the calls that this
// home forwarded came by another process.
func (o *oracle) timedOut(p *process, n int) {
	o.cuts += n
	if !o.w.plan.mayLose && o.w.plan.leaves == 0 {
		o.w.fail("%d barriers at %s timed out", n, p.name)
	}
}

// outcome checks the outcome that a process reports to its callers.
func (o *oracle) outcome(op *operation, out calls.Outcome) {
	ran := o.ran[op.payload]
	switch out {
	case calls.Executed:
		if !ran {
			o.w.fail("%s: %s was answered and did not run", op.process.name, op.payload)
		}
	case calls.NotExecuted:
		if ran {
			o.w.fail("%s: %s ran, and its caller is told that it did not", op.process.name, op.payload)
		}
		o.refused[op.payload] = true
	case calls.Unknown:
		o.unknowns++
	}
	if out != calls.Executed && !o.w.plan.mayLose && !(out == calls.NotExecuted && o.w.plan.small) {
		o.w.fail("%s: call %s has the outcome %v", op.process.name, op.payload, out)
	}
}

// begin records and checks the begin of a turn.
func (o *oracle) begin(s *hosted, e *region.Entity, payload string) {
	p := s.process
	o.w.log("%s: TURN %s", p.name, payload)
	if !p.leased() {
		o.w.fail("%s begins turn %s after its lease has ended", p.name, payload)
	}
	o.alone(s)
	key := e.ID
	l := o.life(p)
	if other := l.running[key]; other != nil && other.alive && (other == p || other.leased()) {
		o.w.fail("%s runs at %s and at %s", key, other.name, p.name)
	}
	l.running[key] = p
	o.state(s, e)
	if o.ran[payload] {
		o.w.fail("%s ran twice, now at %s", payload, p.name)
	}
	if o.refused[payload] {
		o.w.fail("%s runs at %s, and its caller was told that it did not", payload, p.name)
	}
	o.ran[payload] = true
	var thread, entity string
	var n int
	if _, err := fmt.Sscan(strings.ReplaceAll(payload, "/", " "), &thread, &entity, &n); err != nil {
		o.w.fail("payload %q: %v", payload, err)
	}
	order := thread + " → " + entity
	if last := l.last[order]; n <= last && !o.w.plan.handoffOf(s.ID.Kind).Unordered {
		o.w.fail("%s: %d runs at %s after %d", order, n, p.name, last)
	}
	l.last[order] = n
}

// state checks that an entity has the state that it should have, and counts the turn.
func (o *oracle) state(s *hosted, e *region.Entity) {
	v, awake := e.Value.(*value)
	if !awake {
		v = s.wake(e)
	}
	how, l := o.w.plan.handoffOf(s.ID.Kind), o.life(s.process)
	switch want := l.turns[e.ID]; {
	case v.turns == want, how.Serving, how.DropState && v.turns < want:
	case !awake && v.turns < want && l.forgiven[e.ID]:
		o.forgotten++
	default:
		o.w.fail("%s at %s has seen %d turns, want %d", e.ID, s.process.name, v.turns, want)
	}
	delete(l.forgiven, e.ID)
	v.turns++
	l.turns[e.ID] = v.turns
}

func (o *oracle) end(s *hosted, e *region.Entity) {
	if l := o.life(s.process); l.running[e.ID] == s.process {
		delete(l.running, e.ID)
	}
}

// missing returns the operations that were asked for, never ran and were not refused.
func (o *oracle) missing() []string {
	var out []string
	for p := range o.asked {
		if !o.ran[p] && !o.refused[p] {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
