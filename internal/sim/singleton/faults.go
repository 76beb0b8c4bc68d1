package singleton

import (
	"github.com/shardgen/shardgen/internal/sim"
)

type faults struct{ *run }

// any makes a random fault or event happen. Half of the faults strike the active instance's
// process.
func (r faults) any() {
	nodes := r.world.Running()
	if len(nodes) == 0 {
		r.start()
		return
	}
	n := nodes[r.random.IntN(len(nodes))]
	if r.random.IntN(2) == 0 {
		for _, o := range nodes {
			if r.actors[o.Address].active {
				n = o
			}
		}
	}
	switch kind := r.random.IntN(13); kind {
	case 0, 1:
		r.trace("fault: another node starts")
		r.start()
	case 2, 3:
		r.trace("fault: %s is killed", n.Address.Name)
		r.world.Kill(n)
		r.start()
	case 4:
		r.trace("fault: the host of %s vanishes", n.Address.Name)
		r.world.KillHost(n)
	case 5, 6, 7:
		r.leave(n)
	case 8, 9:
		d := r.milliseconds(100, 20_000)
		r.trace("fault: %s stands still for %v", n.Address.Name, d)
		r.world.Freeze(n)
		r.world.After(d, func() { r.world.Thaw(n) })
	case 10:
		r.part()
	case 11:
		d := r.milliseconds(200, 8000)
		r.trace("fault: nothing reaches %s for %v", n.Address.Name, d)
		r.world.Lose(n, 1, r.random.Float64())
		r.world.After(d, func() { r.world.Lose(n, 0, 0) })
	case 12:
		r.forsake(n)
	}
}

func (r faults) forsake(n *sim.Node) {
	d, store := r.milliseconds(7000, 25_000), r.milliseconds(0, 14_000)
	r.trace("fault: %s is cut off for %v, from the store after %v", n.Address.Name, d, store)
	r.world.Lose(n, 1, 1)
	a := r.actors[n.Address]
	a.after(store, func() { a.storeless = !r.calm })
	r.world.After(d, func() {
		r.world.Lose(n, 0, 0)
		a.storeless = false
	})
}

// leave makes a member leave. One in four exits within 2 s, even if it still has the instance.
func (r faults) leave(n *sim.Node) {
	a := r.actors[n.Address]
	if n.Frozen() || !n.IsMember() {
		return
	}
	r.trace("fault: %s leaves", n.Address.Name)
	a.onLoop(a.control.Leave)
	if r.random.IntN(4) == 0 {
		a.after(r.milliseconds(0, 2000), func() {
			r.trace("%s exits with what it has", n.Address.Name)
			a.loop(a.control.Exit)
			if r.random.IntN(2) == 0 && !r.calm { // the node does not learn that it was removed
				r.world.Lose(n, 1, 0)
				r.world.After(r.milliseconds(1000, 8000), func() { r.world.Lose(n, 0, 0) })
			}
		})
	}
	r.start()
}

func (r faults) part() {
	d := r.milliseconds(500, 30_000)
	var one, other []*sim.Server
	for _, s := range r.world.Servers() {
		if r.random.IntN(2) == 0 {
			one = append(one, s)
		} else {
			other = append(other, s)
		}
	}
	r.trace("fault: %d and %d servers are parted for %v", len(one), len(other), d)
	for _, a := range one {
		for _, b := range other {
			r.world.Part(a, b)
			r.parted[[2]*sim.Server{a, b}], r.parted[[2]*sim.Server{b, a}] = true, true
		}
	}
	r.world.After(d, r.mend)
}

func (r faults) mend() {
	for i, a := range r.world.Servers() {
		for _, b := range r.world.Servers()[:i] {
			r.world.Mend(a, b)
		}
	}
	clear(r.parted)
}

func (r faults) heal() {
	r.calm, r.healed = true, r.world.Now()
	r.trace("all faults end")
	r.mend()
	for _, n := range r.world.Running() {
		r.world.Lose(n, 0, 0)
		r.world.Thaw(n)
		r.actors[n.Address].storeless = false
	}
}
