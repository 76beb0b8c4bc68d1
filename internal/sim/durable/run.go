package durable

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/sim"
)

// A Result has the outcome of a run.
type Result = sim.Result[Counts]

type run struct {
	plan        plan
	w           *world
	server      *server
	judge       *judge
	coordinator *coordinator
	homes       []*home
	callers     []*caller
	history     []Operation
	routes      map[route]*home // the home that last answered; for some callers only
	named       int
	followers   []*follower // one for each shard; none without journals
	form        uint32      // the version of states of the latest program
	calm        bool
	storeSkew   time.Duration // of the store's clock
	missing     string        // a tell that has not arrived
	counts      Counts
}

type route struct {
	caller uint64
	shard  int
}

// settleTime bounds the time until every entity answers and every tell has arrived. A tell refused six
// times waits for 32 s, and small tables of commands fill repeatedly.
const settleTime = 3 * time.Minute

// Run simulates the run that the seed determines. trace, unless nil, gets every line of its trace.
func Run(seed uint64, trace func(line string)) Result {
	random := newRandom(seed)
	p := newPlan(random)
	p.index(seed)
	return newRun(p, random, trace).all()
}

// RunUnsynced does the same as Run with crashes of the server's machine. While homes live, the server
// then loses writes that were not on its disk. A change acknowledged by a living home must not be
// lost, unless the home reports the loss and no home opens the shard.
func RunUnsynced(seed uint64, trace func(line string)) Result {
	random := newRandom(seed)
	p := newPlan(random)
	p.index(seed)
	p.unsynced, p.ttl, p.sweeps, p.skew = true, 0, 0, 0
	r := newRun(p, random, trace)
	r.syncs()
	return r.all()
}

// RunClosed does the same as Run with accounts that call no other accounts, so the returned history
// has all changes.
func RunClosed(seed uint64) (history []Operation, err error) {
	random := newRandom(seed)
	p := newPlan(random)
	p.closed, p.ttl = true, 0
	r := newRun(p, random, nil)
	err = r.all().Err
	return r.history, err
}

func (r *run) all() Result {
	for i := range r.plan.callers {
		c := newCaller(r)
		for range 1 + r.w.random.IntN(2) {
			c.act(i)
		}
	}
	r.w.run(3*time.Second, nil)
	for range r.plan.faults {
		r.fault()
		r.w.run(r.between(0, r.plan.pause), nil)
	}
	return r.end()
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0xd0)) }

func newRun(p plan, random *rand.Rand, trace func(string)) *run {
	w := &world{random: random, say: trace}
	r := &run{routes: map[route]*home{}, plan: p, w: w, server: newServer(w, p.shards)}
	r.judge = newJudge(r.server)
	r.judge.skew, r.judge.journaling = p.skew, p.journaling
	r.server.trouble = p.trouble
	r.coordinator = newCoordinator(r)
	w.trace("%+v", p)
	for range p.homes {
		newHome(r)
	}
	if p.journal {
		for i := range p.shards {
			r.followers = append(r.followers, newFollower(r, i))
		}
	}
	return r
}

// program returns the version of states that a starting process writes: a new version, the latest,
// or an earlier one.
func (r *run) program() uint32 {
	if !r.plan.versions || r.calm {
		return r.form
	}
	switch r.w.random.IntN(4) {
	case 0:
		r.form += 2 // above 1, because 0 and 1 are both the first version
	case 1:
		return uint32(r.w.random.Uint64N(uint64(r.form) + 1))
	}
	return r.form
}

// skew returns a random clock error of at most plan.skew, in either direction.
func (r *run) skew() time.Duration { return r.between(-r.plan.skew, r.plan.skew) }

func (r *run) between(from, to time.Duration) time.Duration { return r.w.between(from, to) }

func (r *run) shards() []int {
	all := make([]int, r.plan.shards)
	for i := range all {
		all[i] = i
	}
	return slices.Clip(all)
}

// message calls f when a message arrives. The message may be lost, late, repeated or out of order.
func (r *run) message(f func()) {
	if r.calm {
		r.w.after(r.between(200*time.Microsecond, 2*time.Millisecond), f)
		return
	}
	if r.w.chance(r.plan.lost) {
		return
	}
	d := r.between(200*time.Microsecond, 5*time.Millisecond)
	if r.w.chance(r.plan.late) {
		d = r.between(0, 4*time.Second)
	}
	r.w.after(d, f)
	if r.w.chance(r.plan.lost / 2) {
		r.w.after(d+r.between(0, time.Second), f)
	}
}

func (r *run) send(from *home, c *call, got func(answer)) {
	if from != nil && from.cutCluster {
		return
	}
	shard := r.shardOf(c.entity)
	to := r.coordinator.homeOf(shard)
	route := route{c.command.Source.Incarnation, shard}
	if last := r.routes[route]; last != nil && !last.dead && !r.calm {
		to = last // this caller learns of moves late
	}
	if to == nil || !r.calm && r.w.chance(0.05) {
		to = r.homes[r.w.random.IntN(len(r.homes))]
	}
	n := *c
	n.answer = func(a answer) {
		if to.cutCluster {
			return
		}
		r.routes[route] = nil
		if ran(a.verdict) && from == nil && route.caller&2 != 0 {
			r.routes[route] = to
		}
		r.message(func() {
			if from == nil {
				got(a)
			} else if !from.cutCluster {
				from.do(func() { got(a) })
			}
		})
	}
	r.message(func() {
		if !to.cutCluster {
			to.do(func() {
				again := n
				to.receive(&again)
			})
		}
	})
}

func (r *run) shardOf(entity string) int {
	n := 0
	_, _ = fmt.Sscanf(entity, "a%d", &n)
	return n % r.plan.shards
}

func (r *run) padding() int {
	if !r.calm && r.w.chance(0.002) {
		return r.plan.limits.AppendBytes
	}
	return r.w.random.IntN(r.plan.padding)
}

func (r *run) anyAccount() string { return fmt.Sprintf("a%d", r.w.random.IntN(r.plan.accounts)) }

func (r *run) accountAfter(id, not string) string {
	n := 0
	_, _ = fmt.Sscanf(id, "a%d", &n)
	for {
		n = (n + 1) % r.plan.accounts
		if next := fmt.Sprintf("a%d", n); next != not {
			return next
		}
	}
}

func (r *run) fault() {
	h := r.homes[r.w.random.IntN(len(r.homes))]
	shard := r.w.random.IntN(r.plan.shards)
	if r.plan.unsynced && r.w.chance(0.4) {
		r.unsynced()
		return
	}
	if r.plan.reminders && r.w.chance(0.1) {
		r.setStoreClock()
		return
	}
	if r.plan.publishes && r.w.chance(0.1) {
		r.dropStream()
		return
	}
	switch r.w.random.IntN(16) {
	case 14, 15:
		r.counts.Jumps++
		h.clock.skew = r.skew()
		r.w.trace("the clock of %s is set to %v", h.name, h.clock.skew)
	case 12, 13:
		r.counts.Cuts++
		h.cutControl = true
		r.w.trace("%s is cut from the coordinator", h.name)
		r.w.after(r.between(time.Second, 6*time.Second), func() { h.cutControl = false })
	case 0, 1:
		r.crash(h)
	case 2, 3:
		r.counts.Freezes++
		h.frozen = true
		r.w.trace("%s stands still", h.name)
		r.w.after(r.between(50*time.Millisecond, 5*time.Second), h.thaw)
	case 4:
		r.counts.Cuts++
		h.cutStore = true
		r.w.trace("%s is cut from the store", h.name)
		r.w.after(r.between(50*time.Millisecond, 5*time.Second), func() { h.cutStore = false })
	case 5:
		r.counts.Cuts++
		h.cutCluster = true
		r.w.trace("%s is cut from the cluster", h.name)
		r.w.after(r.between(50*time.Millisecond, 5*time.Second), func() { h.cutCluster = false })
	case 6, 7:
		r.counts.Moves++
		r.coordinator.move(shard)
	case 8:
		old := r.coordinator.homeOf(shard)
		r.coordinator.move(shard)
		if old != nil {
			r.counts.Cancels++
			r.w.after(r.between(0, 400*time.Millisecond), func() { r.coordinator.cancel(shard, old) })
		}
	case 9:
		r.counts.Forgets++
		r.coordinator.forget()
	case 10:
		r.counts.Restarts++
		r.server.restart(r.between(0, 3*time.Second))
	default: // all processes at once
		for _, h := range slices.Clone(r.homes) {
			r.crash(h)
		}
	}
}

func (r *run) crash(h *home) {
	r.counts.Crashes++
	r.w.trace("%s dies", h.name)
	h.dead = true
	r.judge.died(h)
	r.homes = slices.DeleteFunc(r.homes, func(x *home) bool { return x == h })
	newHome(r)
}

func (r *run) end() Result {
	r.calm = true
	r.server.trouble = trouble{}
	r.w.trace("the faults end")
	for _, h := range slices.Clone(r.homes) {
		if h.form < r.form {
			r.crash(h) // its program is replaced
			continue
		}
		h.cutStore, h.cutCluster, h.cutControl = false, false, false
		if h.frozen {
			h.thaw()
		}
	}
	began := r.w.now
	c := newCaller(r)
	left := r.plan.accounts
	for i := range r.plan.accounts {
		c.call(-1, call{entity: fmt.Sprintf("a%d", i), method: get}, settleTime, func(op Operation) {
			if op.Answered {
				left--
			}
		})
	}
	well := r.w.run(settleTime, func() bool {
		return r.unsettled() == nil && left == 0 && r.arrived() && r.quiet() && r.followed() && r.clean() && r.listed() && r.foundAll() && r.reminded()
	})
	if !well {
		r.w.fail("not settled %v after the last fault: %d accounts do not answer, all tells arrived: %v %s, all events followed: %v, all expired records deleted: %v, lists: %v, finds: %v, reminders: %v, promises: %v", settleTime, left, r.arrived(), r.missing, r.followed(), r.clean(), r.listed(), r.foundAll(), r.reminded(), r.unsettled())
	}
	if r.w.err == nil {
		r.finalCheck()
	}
	r.counts.Folded, r.counts.Fired = r.judge.folded, r.judge.firings
	r.counts.Duplicates = r.judge.duplicates
	return Result{Err: r.w.err, Hash: r.w.hash, Counts: r.counts, Settled: r.w.now - began}
}

func (r *run) quiet() bool {
	for _, c := range r.callers {
		if len(c.open) > 0 {
			return false
		}
	}
	return true
}

func (r *run) clean() bool {
	if r.plan.sweeps == 0 || r.plan.keys {
		return true
	}
	for _, shard := range r.shards() {
		for id, all := range r.judge.shards[shard].entities { //arch:order-free whether all are
			if r.judge.surelyGone(all[len(all)-1]) && r.server.record(shard, "e"+id).Revision != 0 {
				return false
			}
		}
	}
	return true
}

func (r *run) arrived() bool {
	for _, shard := range r.shards() {
		//arch:order-free whether all have
		for key, dead := range r.judge.shards[shard].tells {
			if _, there := r.judge.applied[key]; !there && !dead && !r.lossy(shard, key) {
				r.missing = key
				return false
			}
		}
	}
	return true
}

func (r *run) followed() bool {
	for _, f := range r.followers {
		if t := r.judge.shards[f.shard]; !t.crashed && f.place.Number < uint64(len(t.events)) {
			return false
		}
	}
	return true
}

func (r *run) finalCheck() {
	history := slices.DeleteFunc(slices.Clone(r.history), func(op Operation) bool { return r.judge.shards[r.shardOf(op.Account)].tainted })
	if err := checkHistory(history); err != nil {
		r.w.fail("%v", err)
	}
	for _, shard := range r.shards() {
		if err := r.judge.kept(shard); err != nil {
			r.w.fail("%v", err)
		}
		if r.judge.shards[shard].forked {
			r.w.fail("shard %d: nobody reports that an older home has appended behind a lost claim", shard)
		}
		if r.judge.shards[shard].tainted {
			continue
		}
		if err := r.verified(shard); err != nil && !r.judge.shards[shard].crashed {
			r.w.fail("shard %d: %w", shard, err)
		}
		for _, id := range sortedKeys(r.judge.shards[shard].entities) {
			last := r.judge.shards[shard].entities[id]
			want := last[len(last)-1].balance()
			for _, op := range r.history {
				if op.Caller == -1 && op.Account == id && op.Balance != want && op.Version == last[len(last)-1].ordinal {
					r.w.fail("%s answers balance %d, but its log has %d", id, op.Balance, want)
				}
			}
		}
	}
}

type plan struct {
	homes, shards, accounts, callers int
	faults                           int
	pause                            time.Duration // the longest time between two faults
	think                            time.Duration // the longest time between two calls
	idle                             time.Duration // the longest time until an idle account is passivated
	checkpoints                      float64       // the share of passivations that ask for a checkpoint
	panics                           float64
	padding                          int // the largest number of bytes in a state beside the balance
	lost, late                       float64
	trouble                          trouble
	limits                           durable.Limits
	closed                           bool // accounts change only by calls of callers
	without                          without
	journaling                       durable.Journal
	journal                          bool          // accounts record events
	ttl                              time.Duration // of accounts; 0 means they do not expire
	lists                            time.Duration // the longest time between two lists of a shard
	sweeps                           time.Duration // the longest time between two sweeps of a shard; 0 means no sweeps
	keys                             bool          // some commands have a key
	singletons                       bool          // shards of singletons, whose epochs come from no coordinator
	skew                             time.Duration // by which clocks differ from the true time at most
	versions                         bool          // later programs write states of later versions
	reminders                        bool          // accounts set reminders
	indexes, reindex                 bool          // accounts have indexes; programs have different indexes
	publishes                        bool          // accounts publish messages
	unsynced                         bool          // the server's machine crashes, and loses writes that are not on its disk
}

// without disables rules of the driver, for tests that show why each rule is needed.
type without struct{ lostTerm bool }

func newPlan(r *rand.Rand) plan {
	pick := func(of ...float64) float64 { return of[r.IntN(len(of))] }
	p := plan{
		homes: 2 + r.IntN(3), shards: 1 + r.IntN(3), accounts: 2 + r.IntN(8), callers: 2 + r.IntN(6),
		faults: 4 + r.IntN(10), pause: time.Duration(300+r.IntN(2500)) * time.Millisecond,
		think: time.Duration(1+r.IntN(60)) * time.Millisecond, idle: time.Duration(1+r.IntN(400)) * time.Millisecond,
		checkpoints: pick(0, 0.05, 0.5), panics: pick(0, 0.05), padding: 1 + int(pick(0, 20, 200)),
		lost: pick(0, 0.02, 0.1), late: pick(0, 0.02),
		trouble: trouble{late: pick(0, 0.01, 0.05), loses: pick(0, 0.01, 0.1), busy: pick(0, 0.05), stale: pick(0, 0.1, 0.5)},
		limits: durable.Limits{
			AppendBytes: 400 + r.IntN(4000), TailCommits: 10 + r.IntN(100), TailBytes: 4000 + r.IntN(20_000),
			Commands: int(pick(30, 300, 2000)), Silent: 40 * time.Second,
			DeadAfter: time.Duration(pick(3, 600, 600)) * time.Second,
		},
	}
	if p.journal = r.IntN(2) == 0; p.journal {
		p.journaling = durable.Journal{On: true, Every: 1 + r.IntN(20), Followers: r.IntN(2) == 0}
	}
	p.ttl = time.Duration(pick(0, 0, 100, 500, 3000)) * time.Millisecond
	p.skew = time.Duration(pick(0, 100, 2000, 10_000)) * time.Millisecond
	p.singletons = r.IntN(4) == 0
	p.lists, p.limits.LeafBytes = time.Duration(pick(20, 200, 2000))*time.Millisecond, int(pick(10, 30, 100, 0))
	p.versions, p.keys = r.IntN(2) == 0, r.IntN(2) == 0
	if p.ttl > 0 {
		p.sweeps = time.Duration(pick(0, 50, 2000)) * time.Millisecond
	}
	if p.journal {
		p.journaling.Age = time.Duration(pick(0, 0, 500, 5000)) * time.Millisecond
		p.journaling.Events = uint64(pick(0, 0, 1, 20))
	}
	return p
}

// Counts counts the events of runs. A sweep of many seeds does not test an event whose count is 0.
type Counts struct {
	Answered, Unknown, Replayed, Refused, Overloaded, Nested, Mismatches, Tells, Leased, Panics, TooLarge int
	Opened, Reclaimed, Checkpoints, Outgrown, Outclimbed, Dead                                            int
	Followed, Folded, Deleted, Gone, Sought                                                               int
	Listed, Present, Absent, Indexing, Damaged                                                            int
	Found, Steady, Unindexed, Keyed                                                                       int
	Reminders, Fired, Looks, ClockSet                                                                     int
	Published, Searched, Duplicates, NoStream                                                             int
	Expired, Migrated, Newer, Swept                                                                       int
	Crashes, Freezes, Cuts, Moves, Cancels, Forgets, Restarts, Jumps                                      int
	PutBacks, Kept, Void, Closed, InOrder                                                                 int // of runs whose server loses what was not on its disk
}

func (c *Counts) event(e durable.Event, above bool) {
	switch {
	case e.Kind == durable.Opened:
		c.Opened++
	case e.Kind == durable.Reclaimed:
		c.Reclaimed++
	case e.Kind == durable.Checkpointed:
		c.Checkpoints++
	case e.Kind == durable.DeadLetter:
		c.Dead++
	case e.Kind == durable.Ended && e.Epoch > 0 && above:
		c.Outclimbed++
	case e.Kind == durable.Ended && e.Epoch > 0:
		c.Outgrown++
	}
}

func (c *Counts) verdict(v durable.Verdict) {
	switch v {
	case durable.Replay:
		c.Replayed++
	case durable.BelowFloor:
		c.Refused++
	case durable.Overloaded:
		c.Overloaded++
	default:
	}
}
