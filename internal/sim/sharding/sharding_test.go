package sharding

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// plans are the kinds of runs. A call may be lost only in plans in which processes end or are cut
// off; all other invariants hold in every plan.
var plans = []plan{
	{name: "moves", hosts: 3, clients: 2, shards: 2, moves: 24, stale: 100 * time.Millisecond},
	{name: "two homes", hosts: 2, clients: 2, shards: 1, moves: 30, stale: 300 * time.Millisecond},
	{name: "stale tables", hosts: 4, clients: 2, shards: 1, moves: 24, stale: 2 * time.Second, loss: 0.2},
	{name: "aborts", hosts: 3, clients: 2, shards: 2, moves: 24, aborts: true, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "breaks", hosts: 3, clients: 2, shards: 2, moves: 24, breaks: 8, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "breaks and aborts", hosts: 4, clients: 1, shards: 2, moves: 24, breaks: 8, aborts: true, stale: time.Second, loss: 0.1},
	{name: "joins and leaves", hosts: 3, clients: 2, shards: 4, moves: 15, joins: 2, leaves: 3, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "leave together", hosts: 3, clients: 1, shards: 4, moves: 12, joins: 2, leaves: 5, together: true, stale: 300 * time.Millisecond, loss: 0.2},
	{name: "small buffers", hosts: 3, clients: 3, shards: 2, moves: 24, joins: 1, aborts: true, small: true, mayLose: true, stale: 300 * time.Millisecond},
	{name: "other ways", hosts: 3, clients: 2, shards: 2, moves: 30, joins: 1, leaves: 1, aborts: true, anyWay: true, mayLose: true, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "strikes", hosts: 4, clients: 1, shards: 4, moves: 30, strikes: 2, mayLose: true, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "restarts", hosts: 4, clients: 1, shards: 4, moves: 20, kills: 2, strikes: 1, restarts: true, mayLose: true, stale: time.Second, loss: 0.1},
	{name: "pauses", hosts: 4, clients: 1, shards: 2, moves: 30, pauses: 2, strikes: 2, mayLose: true, timeout: time.Second, stale: 300 * time.Millisecond, loss: 0.1},
	{name: "cuts", hosts: 5, clients: 1, shards: 2, moves: 30, cuts: 1, strikes: 2, mayLose: true, timeout: time.Second, stale: 300 * time.Millisecond, loss: 0.1},
	{
		name: "everything", hosts: 5, clients: 2, shards: 4, moves: 30, joins: 1, leaves: 1, kills: 1, strikes: 2, restarts: true,
		pauses: 1, cuts: 1, breaks: 4, aborts: true, mayLose: true, timeout: 2 * time.Second, stale: 2 * time.Second, loss: 0.2,
	},
	{name: "overlaps", hosts: 3, clients: 2, shards: 2, moves: 24, breaks: 8, overlaps: true, stale: 300 * time.Millisecond, loss: 0.1},
	{
		name: "rebounds", hosts: 5, clients: 2, shards: 4, moves: 24, kills: 3, breaks: 6, restarts: true, overlaps: true, rebounds: true,
		mayLose: true, timeout: time.Second, stale: 300 * time.Millisecond, loss: 0.1,
	},
	{
		name: "silent at recovery", hosts: 6, clients: 1, shards: 4, moves: 24, leaves: 1, kills: 2, hides: 3, restarts: true, overlaps: true,
		rebounds: true, mayLose: true, timeout: 2 * time.Second, stale: 300 * time.Millisecond, loss: 0.1,
	},
	{
		name: "pool and loads", hosts: 4, clients: 1, shards: 16, pool: 8, loaded: true, moves: 4, resizes: 6, joins: 1, leaves: 1,
		mayLose: true, timeout: 2 * time.Second, spread: 4 * time.Second, stale: 300 * time.Millisecond, loss: 0.1,
	},
	{
		name: "pool and loads among everything", hosts: 6, clients: 1, shards: 16, pool: 8, loaded: true, moves: 6, resizes: 8, joins: 2, leaves: 1,
		kills: 2, strikes: 2, hides: 1, restarts: true, pauses: 1, cuts: 1, breaks: 4, aborts: true, overlaps: true, rebounds: true,
		mayLose: true, timeout: 2 * time.Second, spread: 4 * time.Second, stale: time.Second, loss: 0.1,
	},
}

// usual is the number of seeds that a test runs for each plan: 300 in all.
const usual = 15

// handoffs are the handoffs for plans with anyWay, which try them all.
var handoffs = []region.Handoff{
	{DropCalls: true, Unordered: true, Refusing: true, DropState: true},
	{Serving: true},
	{DropCalls: true},
	{Unordered: true},
	{Refusing: true},
	{Serving: true, Unordered: true, Refusing: true},
	{DropCalls: true, Refusing: true},
}

// counts has the numbers of events in runs.
type counts struct {
	Turns, Moves, GivenUp, Promoted, Restored, BarriersTimedOut, CallsLost, Unknown, Refused, Forgotten, Cancelled, ByLoad, Sized, Retired int
}

// TestSharding runs every plan for some seeds. With the flags of package seeds it runs more: 600 of
// each plan make 12,000.
func TestSharding(t *testing.T) {
	for _, p := range plans {
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			n := usual
			if invariant.Race {
				n /= 4
			}
			all, one := seeds.Run(t, n, func(seed uint64, trace func(string)) sim.Result[counts] { return outcome(seed, p, trace) })
			if !one && p.mayLose && !invariant.Race {
				seeds.Want(t, all, "Cancelled")
			}
			if !one && p.loaded && !invariant.Race {
				seeds.Want(t, all, "ByLoad", "Sized", "Retired")
			}
		})
	}
}

// TestShardingByTable is TestSharding with members that agree by a table.
func TestShardingByTable(t *testing.T) {
	for _, p := range plans {
		p.table = true
		if !p.mayLose {
			p.timeout = 12 * time.Second // no process can join or leave while the table is away
		}
		t.Run(strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			seeds.Run(t, usual/3, func(seed uint64, trace func(string)) sim.Result[counts] { return outcome(seed, p, trace) })
		})
	}
}

// outcome makes the run of a seed.
func outcome(seed uint64, p plan, trace func(string)) sim.Result[counts] {
	var text *strings.Builder
	if trace != nil {
		text = &strings.Builder{}
		defer func() { trace("\n" + text.String()) }()
	}
	w := simulate(seed, p, text)
	o := w.oracle
	return sim.Result[counts]{Err: w.err, Hash: w.hash, Counts: counts{
		Turns: len(o.ran), Moves: o.counts[coordinator.MoveCommitted], GivenUp: o.counts[coordinator.MoveResumed],
		Promoted: o.counts[coordinator.MovePromoted], Restored: o.counts[coordinator.MoveRestored], BarriersTimedOut: o.cuts,
		CallsLost: o.losses, Unknown: o.unknowns, Refused: o.refusedTells + len(o.refused), Forgotten: o.forgotten, Cancelled: o.cancelled,
		ByLoad: o.byLoad, Sized: o.sized, Retired: o.retired,
	}}
}

// TestSeedsThatFailed runs the seeds that found bugs. A seed is useful only as long as its run does
// not change, and every change of what the cores do changes it.
func TestSeedsThatFailed(t *testing.T) {
	for _, found := range []struct {
		plan string
		seed uint64
		bug  string
	}{
		{"joins and leaves", 100045, "a call that waited for word of a home that had left was refused when the shard came back by a move"},
		{"other ways", 300189, "a table from before a departure opened a shard that was prepared to come back by a move"},
		{"two homes", 200479, "a settled home refused a call, and forwarded a younger one when the shard came back"},
		{"joins and leaves", 13, "a call that had come back from a home that had left was refused when the shard came back by a move"},
		{"joins and leaves", 31, "calls that another home forwarded were refused for a barrier of a tenure that a later term had ended"},
		{"joins and leaves", 200016, "a call waited for the table of an epoch that was lost with its coordinator"},
		{"joins and leaves", 300001, "a client followed the table of a member that was not its gateway"},
		{"everything", 300047, "a process that joined followed the coordinator of another life of the cluster"},
		{"everything", 318, "a client whose gateway was on the losing side of a split had a surviving member down for good"},
		{"rebounds", 700015, "a call that a departed home had passed on ran after a younger one that had come back"},
		{"joins and leaves", 700050, "a call that came by way of a new home was refused for one that had come back and gone on there"},
		{"everything", 800369, "the coordinator's member, on its way out, obeyed a member of the other half of a split, which had downed it, and nobody was the coordinator any more"},
		{"joins and leaves", 800110, "a home whose table skipped the sender's new home kept the Flush to itself, and the barrier there timed out"},
		{"joins and leaves", 900457, "a home left before a sender had flushed, and nobody knew that another still held its calls"},
		{"everything", 900452, "a member that came Up while the network was cut counted itself, its side won with it, and the other without it"},
		{"restarts", 910175, "a home took a call back of another's sender from one that had died, and ran it after younger ones"},
		{"cuts", 930115, "two of four members fenced the oldest, which went on with the fourth, for that did not know of the judgement"},
		{"joins and leaves", 1700065, "a client followed a table of a later term to the home before a move that it had heard of, and a tell was refused by way of that home"},
		{"everything", 2500120, "a tell waited at its home for a table that was lost with the coordinator, and its sender, which turned to that home, had a younger one run"},
		{"everything", 6000130, "a member that was not Up made a majority for its lease with itself and a member that was fenced, while the others fenced it"},
		{"joins and leaves", 6000196, "two homes left one after the other, and a call that had come back from the second to a third was refused when its sender went on"},
		{"joins and leaves", 8000012, "a client with a late table called a home that had left before, and waited three seconds for the goodbye of that home"},
		{"leave together", 111, "the coordinator left before the member that stayed knew the pins"},
		{"leave together", 141, "a host left with its shards because the only other one was still joining"},
		{"leave together", 9502140, "a call that was forwarded to a home that a late table named, and that was gone, was dropped"},
		{"leave together", 9500400, "a route left a home that was gone, and no one waited for the calls at the home before"},
		{"leave together", 9501647, "a member left before a sender had flushed whose call it had forwarded at last"},
		{"leave together", 900354, "a member left while its first tells were on their way to a home that had left before"},
		{"everything", 24, "a client that met another life of the cluster went on to a home of the life before, and kept its calls"},
		{"pool and loads among everything", 4, "members near the mean moved shards beyond the budget, because the busiest one, with a single hot shard, may overdraw it"},
		{"pool and loads", 37, "an instance that was to end was needed again, and stayed at a member that had got another one, beyond PerNode"},
		{"pool and loads among everything", 30, "calls waited at a member to which a lost coordinator had given an instance, for the next one's table had no word of it"},
		{"pool and loads among everything", 9700054, "a client that was told of a death by the losing side of a partition never called that member's shards again"},
		{"pool and loads among everything", 9702057, "two former homes sent tells to each other for ever, because a move back to one of them was lost with its coordinator"},
		{"pool and loads among everything", 9960348, "the judge did not wait for a cluster that formed after the last minority had ended late"},
		{"pool and loads among everything", 20001, "a call waited at a former home for the home of an instance that had ended"},
	} {
		i := slices.IndexFunc(plans, func(p plan) bool { return p.name == found.plan })
		if err := simulate(found.seed, plans[i], nil).err; err != nil {
			t.Errorf("%s, seed %d: %v (before: %s)", found.plan, found.seed, err, found.bug)
		}
	}
}

// answerBound is the time after the faults within which every shard answers every process. It
// includes up to 3 s until a death or a silence is judged, 2 s for the last lease and for barriers
// that wait in vain, and the resending of lost messages. In this time the last members may end
// because the majority has died. The new cluster, formed or not yet, then gets formBound more.
const (
	answerBound = 8 * time.Second
	formBound   = 4 * time.Second
)

// simulate runs a plan: first with traffic and faults, then without them until all calls and moves
// have ended.
func simulate(seed uint64, p plan, trace *strings.Builder) *world {
	if p.anyWay {
		p.handoff = handoffs[seed%uint64(len(handoffs))]
	}
	w := newWorld(seed, p, trace)
	for _, p := range slices.Clone(w.procs) {
		p.startThreads()
	}
	w.faults()
	w.run(w.plan.lasts())
	if w.err == nil {
		w.rest()
	}
	return w
}

// rest ends the faults, makes every process ask every entity, and checks that no call or move is
// left.
func (w *world) rest() {
	w.heal()
	w.calm = true
	waiting, formed := map[string]asker{}, w.members.formed
	for _, p := range w.procs {
		if !p.alive || p.host && p.control.status() >= membership.Leaving {
			continue
		}
		for _, id := range w.ids {
			for i := range entitiesAShard {
				w.probe(p, id, i, 1, waiting)
			}
		}
	}
	w.run(answerBound)
	if w.members.formed > formed || !slices.ContainsFunc(w.procs, (*process).healthy) {
		w.run(formBound)
	}
	for _, who := range slices.Sorted(maps.Keys(waiting)) {
		// A removed process learns of its removal after the faults, and a pool loses instances.
		if a := waiting[who]; a.alive && a.has(a.id) {
			w.fail("%v after the faults: no answer to %s; it waits for: %s", answerBound, who, a.waitsFor())
		}
	}
	w.quiet = true
	w.run(12 * time.Second)
	if w.err == nil {
		w.settled()
	}
}

// An asker is a process that waits for the answer of an entity.
type asker struct {
	*process
	id placement.ShardID
}

// probe calls an entity until it answers, or until the pool does not have that instance.
func (w *world) probe(p *process, id placement.ShardID, i, try int, waiting map[string]asker) {
	e := entity(id, i)
	thread := fmt.Sprintf("probe.%s#%d", p.name, p.self.Incarnation)
	if try > 1 && !p.has(id) {
		delete(waiting, thread+" → "+e)
		return
	}
	waiting[thread+" → "+e] = asker{p, id}
	p.call(id, e, payload(thread, e, try), nil, w.now.Add(callTimeout), func(o calls.Outcome) {
		if o == calls.Executed {
			delete(waiting, thread+" → "+e)
			return
		}
		p.after(100*time.Millisecond, func() { w.probe(p, id, i, try+1, waiting) })
	})
}

// settled checks that the world has come to rest.
func (w *world) settled() {
	cs := w.coordinators()
	if len(cs) != 1 || !cs[0].control.Coordinator().Recovered() {
		w.fail("%d coordinators", len(cs))
		return
	}
	if nodes := w.members.Running(); !sim.Agreed(nodes) {
		w.fail("the members do not agree on who they are: %v", nodes[0].View())
	}
	table := cs[0].control.Coordinator().Table()
	for _, p := range w.procs {
		if !p.alive {
			continue
		}
		if p.holding != p.held() {
			w.fail("%s counts %d calls that wait for homes, and %d do", p.name, p.holding, p.held())
		}
		if p.busy() {
			w.fail("%s still waits for %d calls, %s", p.name, int(p.pending.Coalescer.UnderWay())+p.held(), p.waitsFor())
		}
		if p.table.Version() != table.Version() {
			w.fail("%s has table %v, want %v", p.name, p.table.Version(), table.Version())
		}
		for _, id := range w.ids {
			e, _ := table.Lookup(id)
			w.restingShard(p, id, e.Home)
		}
		for _, l := range p.sortedLinks() {
			if to := w.process(l.Peer().Address); !l.HasDeparted() && to.alive && l.Core.Acked() != l.Core.Next()-1 {
				w.fail("%s: %s acknowledged %d of %d", p.name, l.Peer().Name, l.Core.Acked(), l.Core.Next()-1)
			}
		}
	}
	if w.plan.together {
		w.orders(cs[0])
	}
	w.apart(cs[0])
	if missing := w.oracle.missing(); len(missing) > 0 && !w.plan.mayLose {
		w.fail("never ran: %v", missing)
	}
}

// orders checks that the operators' orders were carried out, or are in force.
func (w *world) orders(at *process) {
	c := at.control.Coordinator()
	if w.oracle.paused && !c.Pause().On {
		w.fail("the pause of rebalancing is lost")
	}
	for _, p := range w.procs {
		if p.alive && p.leaves {
			w.fail("%s was told to leave, and has not", p.name)
		}
	}
	for _, id := range w.ids {
		node := w.oracle.pinned[id]
		if e, _ := c.Table().Lookup(id); node == "" || e.Home.Name == node {
			continue
		}
		out := c.Step(w.now, coordinator.Receive{From: at.self.Address, Message: coordinator.Explain{ID: 1, ShardID: id}})
		for _, answer := range out.Send {
			if m, ok := answer.Message.(coordinator.Explained); ok && !strings.Contains(m.Text, "it is pinned to "+node) {
				w.fail("the pin to %s is lost: %s", node, m.Text)
			}
		}
	}
}

func (w *world) restingShard(p *process, id placement.ShardID, home transport.Address) {
	r, want := p.routes[id], stream.Known
	if home.IsZero() {
		want = stream.Unknown // another life of the cluster began after all processes had asked, or there is no such instance
	}
	// A former home that is no instance any more refuses calls. A route learns of that only then:
	// see routing.Route.Learn.
	former := id.Kind == poolName && home.IsZero() && r.Core.State == stream.Known
	if !former && (r.Core.State != want || r.Core.Home != home) || r.Core.Held() > 0 {
		w.fail("%s: route of %v is %v to %s and holds %d, want %v to %s",
			p.name, id, r.Core.State, r.Core.Home.Name, r.Core.Held(), want, home.Name)
	}
	h := p.shards[id]
	if h == nil {
		return
	}
	core, here := h.Core, home == p.self.Address
	if len(h.queued) > 0 {
		w.fail("%v at %s: %d calls went in to wait and never came out", id, p.name, len(h.queued))
	}
	switch {
	case here && core.State() != region.Open:
		w.fail("%v is %v at its home %s", id, core.State(), p.name)
	case !here && core.State() != region.Closed && core.State() != region.Forwarding:
		w.fail("%v is %v at %s, and its home is %s", id, core.State(), p.name, home.Name)
	case core.State() == region.Forwarding && !core.Settled():
		w.fail("%v moved away from %s and has not settled", id, p.name)
	case core.Waiting() > 0 || core.Barriers() > 0 || core.WatchRunning() > 0:
		w.fail("%v at %s: %d wait, %d barriers, %d turns", id, p.name, core.Waiting(), core.Barriers(), core.WatchRunning())
	}
}

// TestReplays: a seed is useful only if it always gives the same run.
func TestReplays(t *testing.T) {
	for _, p := range plans {
		var traces [2]strings.Builder
		for i := range traces {
			simulate(1, p, &traces[i])
		}
		if a, b := traces[0].String(), traces[1].String(); a != b || a == "" {
			t.Errorf("%s: two runs of one seed differ", p.name)
		}
	}
}
