package singleton

import (
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
)

// delay is how long a message takes.
func (r *run) delay() time.Duration {
	if !r.calm && r.random.Float64() < r.plan.slow {
		return r.milliseconds(20, 3000)
	}
	return r.milliseconds(0.2, 10)
}

// send brings a message to another manager or proxy, or does not.
func (r *run) send(from *actor, e singleton.Envelope) {
	to := r.actors[e.To]
	if to == nil {
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
				to.do(func() { to.receive(from, e.Message) })
			}
		})
	}
}

// reaches reports whether the brokers connect two nodes at this moment.
func (r *run) reaches(a, b *actor) bool {
	if a == b {
		return true
	}
	s, t := a.node.Server(), b.node.Server()
	return a.node.Connected() && b.node.Connected() && s.Up() && t.Up() && !r.parted[[2]*sim.Server{s, t}]
}

// fault lets one thing happen; the oldest is hit more often than others.
func (r *run) fault() {
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
	switch kind := r.random.IntN(12); kind {
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
	}
}

// leave begins leaving; one in four hurries, and exits with what it has.
func (r *run) leave(n *sim.Node) {
	a := r.actors[n.Address]
	if n.Frozen() || !n.IsMember() {
		return
	}
	r.trace("fault: %s leaves", n.Address.Name)
	r.world.Give(n, membership.Leave{})
	a.leaving = true
	if r.random.IntN(4) == 0 {
		r.world.After(r.milliseconds(0, 2000), func() {
			a.do(func() {
				if a.leaving {
					r.trace("%s exits with what it has", n.Address.Name)
					a.leaving, a.forced = false, true
					r.world.Give(n, membership.ExitReady{})
				}
			})
		})
	}
	r.start()
}

// part cuts the servers into two parts for a while.
func (r *run) part() {
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

func (r *run) mend() {
	for i, a := range r.world.Servers() {
		for _, b := range r.world.Servers()[:i] {
			r.world.Mend(a, b)
		}
	}
	clear(r.parted)
}

// heal ends all faults.
func (r *run) heal() {
	r.calm, r.healed = true, r.world.Now()
	r.trace("all faults end")
	r.mend()
	for _, n := range r.world.Running() {
		r.world.Lose(n, 0, 0)
		r.world.Thaw(n)
	}
}
