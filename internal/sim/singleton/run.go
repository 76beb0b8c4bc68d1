package singleton

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// Counts counts the events of runs. A sweep of many seeds does not test an event whose count is 0.
type Counts struct {
	Started, Handed, Refused, Died, Tasks, Turns, Found, Leases, LeasesLost, Halves int
}

// A Result has the outcome of a run.
type Result = sim.Result[Counts]

type run struct {
	plan       plan
	world      *sim.World
	random     *rand.Rand
	actors     map[transport.Address]*actor
	order      []*actor
	store      leases
	parted     map[[2]*sim.Server]bool
	named      int
	calm       bool
	healed     time.Duration // when the faults ended, or the operator last acted
	err        error
	hash       uint64
	say        func(string)
	counts     Counts
	handing    bool              // the home leaves once the run has settled
	passivated uint64            // turns of the instance that stopped last
	turns      uint64            // of all instances, in a run of planned leaves
	founder    transport.Address // of the last instance's cluster
	mayLose    bool              // the next instance may lack these turns
	ended      bool              // all later instances may lack these turns
}

const settleTime = 2 * time.Minute

// Run simulates the run that the seed determines. trace, unless nil, gets every line of its trace.
func Run(seed uint64, trace func(line string)) Result {
	random := rand.New(rand.NewPCG(seed, 0x51))
	r := newRun(random, newPlan(random), trace)
	for range r.plan.nodes {
		r.world.At(r.milliseconds(0, 1500), r.start)
	}
	r.wait(r.milliseconds(1000, 6000))
	for range r.plan.faults {
		faults{r}.any()
		r.wait(r.milliseconds(0, float64(r.plan.pause/time.Millisecond)))
		if r.random.IntN(4) == 0 {
			r.wait(r.milliseconds(2000, 25_000))
		}
	}
	return r.end()
}

func newRun(random *rand.Rand, p plan, trace func(line string)) *run {
	r := &run{
		plan: p, random: random, actors: map[transport.Address]*actor{}, parted: map[[2]*sim.Server]bool{}, say: trace,
	}
	// Automatic downing breaks the world's invariants of leases and fences. The other invariants
	// are checked here.
	r.world = sim.New(sim.Config{
		Seed: r.random.Uint64(), Servers: r.plan.servers, Jitter: r.milliseconds(0, 10), Failover: r.random.IntN(2) == 0,
		PingTimeout: 5 * time.Second, RouteTimeout: r.milliseconds(500, 3000), HostTimeout: r.milliseconds(5000, 20_000),
		Unchecked: true,
	})
	r.world.OnChange = func(n *sim.Node, events []membership.Event) {
		if a := r.actors[n.Address]; a != nil {
			view := n.View()
			a.after(0, func() { a.changed(view, events) })
		}
	}
	r.trace("%+v", r.plan)
	return r
}

func (r *run) wait(d time.Duration) {
	if r.err == nil && r.world.Err() == nil {
		r.world.RunUntil(d, 50*time.Millisecond, func() bool { return r.err != nil })
	}
}

func (r *run) end() Result {
	faults{r}.heal()
	began := r.world.Now()
	well := r.settle(r.settled)
	settled := r.world.Now() - began
	if well {
		well = r.handOff()
	}
	res := Result{Err: r.err, Hash: r.world.Hash() ^ r.hash, Counts: r.counts, Settled: settled}
	if res.Err == nil && r.world.Err() != nil && r.plan.downing != membership.DowningAuto {
		res.Err = r.world.Err()
	}
	if res.Err == nil && !well && r.world.Err() == nil {
		res.Err = fmt.Errorf("not settled %v after the last fault: %v", settleTime, r.order)
	}
	return res
}

func (r *run) settle(well func() bool) bool {
	return r.err == nil && r.world.RunUntil(settleTime, 100*time.Millisecond, func() bool { return r.err != nil || well() })
}

// handOff makes the singleton's home leave after the run has settled. The singleton's state must
// survive, unless the instance dies of an earlier failure.
func (r *run) handOff() bool {
	if len(r.world.Running()) < 2 {
		r.start()
		if !r.settle(func() bool { return len(r.world.Running()) > 1 && r.settled() }) {
			return false
		}
	}
	old := r.home()
	r.trace("%s leaves when all is well", old.self.Name)
	died := r.counts.Died
	r.handing = true
	old.onLoop(old.control.Leave)
	well := r.settle(func() bool { return old.over() && r.settled() })
	if now := r.home(); well && r.err == nil && r.counts.Died == died && now.value.turns < r.passivated {
		r.fail("%s handed off %d turns, but %s has only %d", old.self.Name, r.passivated, now.self.Name, now.value.turns)
	}
	return well
}

func (r *run) home() (home *actor) {
	for _, n := range r.world.Running() {
		if a := r.actors[n.Address]; a.active && a.mayRun() {
			if home != nil {
				return nil
			}
			home = a
		}
	}
	return home
}

// settled reports whether all members agree, and one instance runs, on the oldest member, as every
// process knows. It may start a process or cull.
func (r *run) settled() bool {
	nodes := r.world.Running()
	if len(nodes) == 0 {
		r.start()
		return false
	}
	if !sim.Agreed(nodes) {
		if r.plan.downing == membership.DowningAuto && r.world.Now()-r.healed > settleTime/4 {
			r.cull(nodes)
		}
		return false
	}
	home := r.home()
	if home == nil || home.node.Address != oldest(home.node.View()) {
		return false
	}
	for _, n := range nodes {
		if r.actors[n.Address].seen() != home.node.Address {
			return false
		}
	}
	return true
}

func oldest(v *membership.View) transport.Address {
	for _, m := range v.ByAge {
		if m.Status == membership.Up {
			return m.Address
		}
	}
	return transport.Address{}
}

// cull acts as an operator after automatic downing has split the cluster: it keeps the largest part.
func (r *run) cull(nodes []*sim.Node) {
	size := map[uint64]int{}
	var most uint64
	for _, n := range nodes {
		set, _ := n.Set()
		if size[set]++; size[set] > size[most] {
			most = set
		}
	}
	for _, n := range nodes {
		if set, _ := n.Set(); set != most {
			r.trace("%s is ended, for it is not of the largest cluster", n.Address.Name)
			r.world.Kill(n)
		}
	}
	r.healed = r.world.Now()
}

func (r *run) start() {
	r.named++
	c := membership.Config{
		Self: transport.Address{Name: fmt.Sprintf("n%02d", r.named), Incarnation: identity.Mark(identity.Member, r.random.Uint64())}, Seed: r.random.Uint64(),
		Downing: r.plan.downing, ProbeVacancy: true,
		Meta: []membership.KeyValue{{Key: hostmeta.SingletonKey(kindName), Value: "1"}},
	}
	if c.Downing == membership.DowningAuto {
		c.AutoDownAfter = 6 * time.Second
	}
	n, err := r.world.Add(c, sim.Place{Server: r.random.IntN(r.plan.servers)})
	if err != nil {
		panic(err) // a mistake of the plan
	}
	r.world.Start(n)
	r.attach(n)
}

func (r *run) attach(n *sim.Node) {
	a := newActor(r, n)
	r.actors[n.Address] = a
	r.order = append(r.order, a)
	a.onLoop(a.control.Begin)
	a.after(r.milliseconds(0, 100), (*home)(a).turn)
}

func (r *run) delay() time.Duration {
	if !r.calm && r.random.Float64() < r.plan.slow {
		if r.plan.planned {
			return r.milliseconds(20, 300) // the broker has no fault here, so messages are never later
		}
		return r.milliseconds(20, 3000)
	}
	return r.milliseconds(0.2, 10)
}

// send sends a message between control planes. It may be lost or arrive twice.
func (r *run) send(from, to *actor, deliver func()) {
	if from == to {
		to.after(0, deliver)
		return
	}
	times := 1
	if !r.calm {
		if r.random.Float64() < r.plan.loss || !r.reaches(from, to) {
			return
		}
		if r.random.IntN(20) == 0 {
			times = 2
		}
	}
	for range times {
		r.world.After(r.delay(), func() {
			if r.reaches(from, to) {
				to.do(deliver)
			}
		})
	}
}

func (r *run) reaches(a, b *actor) bool {
	if a == b {
		return true
	}
	s, t := a.node.Server(), b.node.Server()
	return a.node.Connected() && b.node.Connected() && s.Up() && t.Up() && !r.parted[[2]*sim.Server{s, t}]
}

// check fails the run if two instances are active although the guard must prevent that.
func (r *run) check() {
	var active []*actor
	for _, a := range r.order {
		if a.mayRun() {
			active = append(active, a)
		}
	}
	if len(active) < 2 {
		return
	}
	if r.plan.guard == byLease || r.plan.planned && !r.plan.kill {
		r.fail("two instances are active: %v", active)
		return
	}
	r.counts.Halves++
	for i, a := range active {
		for _, b := range active[:i] {
			if r.plan.guard == byDowning && a.node.View().Founder == b.node.View().Founder {
				r.fail("two instances are active in one cluster: %v, %v", a, b)
			}
			if together(a.node.View(), b.node.View()) {
				r.fail("two instances are active in one converged view: %v, %v", a, b)
			}
		}
	}
}

func together(a, b *membership.View) bool {
	if a == nil || b == nil || !a.Converged || !b.Converged || len(a.ByAddress) != len(b.ByAddress) {
		return false
	}
	for i := range a.ByAddress {
		if a.ByAddress[i].Address != b.ByAddress[i].Address || a.ByAddress[i].Status != b.ByAddress[i].Status {
			return false
		}
	}
	_, other := a.Member(b.Self)
	return other
}

func (r *run) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("at %v: "+format, append([]any{r.world.Now()}, args...)...)
		r.trace("%v", r.err)
	}
}

func (r *run) trace(format string, args ...any) {
	line := fmt.Sprintf("%10v "+format, append([]any{r.now()}, args...)...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%x %s", r.hash, line)
	r.hash = h.Sum64()
	if r.say != nil {
		r.say(line)
	}
}

func (r *run) now() time.Duration { return r.world.Now().Round(10 * time.Microsecond) }

func (r *run) milliseconds(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*r.random.Float64()) * float64(time.Millisecond))
}

type guard uint8

const (
	byDowning guard = iota // downing with fencing
	byLease                // a lease; the cluster may split into several
	byNothing              // automatic downing
)

type plan struct {
	guard     guard
	nodes     int
	faults    int
	pause     time.Duration // the longest time between two faults
	loss      float64       // of the control planes' messages
	slow      float64       // the share of these messages that take long
	storeLoss float64
	retry     time.Duration
	downing   membership.Downing
	servers   int
	// planned is a run in which members only leave in order and join, and no instance dies by
	// itself.
	planned bool
	kill    bool // as planned, but members are killed too
	ends    bool // as planned, and in the end all members leave
}

func newPlan(r *rand.Rand) plan {
	p := plan{
		guard: []guard{byDowning, byDowning, byLease, byLease, byNothing}[r.IntN(5)],
		nodes: 2 + r.IntN(6), faults: 3 + r.IntN(8), pause: time.Duration(200+r.IntN(3000)) * time.Millisecond,
		loss: []float64{0, 0.05, 0.3}[r.IntN(3)], slow: []float64{0, 0.1}[r.IntN(2)],
		storeLoss: []float64{0, 0.1, 0.4}[r.IntN(3)], retry: time.Duration(50+r.IntN(500)) * time.Millisecond,
		servers: 1 + r.IntN(3),
	}
	switch {
	case p.guard == byNothing, p.guard == byLease && r.IntN(2) == 0:
		p.downing = membership.DowningAuto // both halves of a split cluster go on
	default:
		p.downing = []membership.Downing{membership.DowningBroker, membership.DowningKeepMajority, membership.DowningAll}[r.IntN(3)]
	}
	return p
}

func newLeaves(r *rand.Rand) plan {
	return plan{
		planned: true, kill: r.IntN(4) == 0, ends: r.IntN(4) == 0,
		guard: []guard{byDowning, byDowning, byLease}[r.IntN(3)], downing: membership.DowningBroker,
		nodes: 2 + r.IntN(6), faults: 3 + r.IntN(15),
		pause: []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second}[r.IntN(4)],
		loss:  []float64{0, 0.05, 0.3}[r.IntN(3)], slow: []float64{0, 0.1}[r.IntN(2)],
		retry: time.Duration(50+r.IntN(500)) * time.Millisecond, servers: 1 + r.IntN(3),
	}
}
