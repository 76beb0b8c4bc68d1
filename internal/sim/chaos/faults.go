package chaos

import (
	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// faults makes the faults of a run.
type faults struct{ *run }

// kinds are all faults; each is as likely as it stands there often.
var kinds = []func(faults){
	faults.join, faults.join, faults.restart,
	faults.kill, faults.kill, faults.killSome, faults.killHost,
	faults.leave,
	faults.freeze, faults.freeze, faults.freezeSome,
	faults.cut, faults.part, faults.part, faults.split,
	faults.bounceServer, faults.bounceServers,
	faults.deafen, faults.mute, faults.loseSome, faults.loseAll,
	faults.clog,
	faults.downAlive, faults.quarantine,
}

// harmless are the faults that separate no healthy process from the others. Auto-down
// splits a cluster at any other.
var harmless = []func(faults){faults.join, faults.restart, faults.kill, faults.killSome, faults.killHost, faults.leave}

// any makes one fault, by chance.
func (r faults) any() {
	all := kinds
	if r.plan.config.Downing == membership.DowningAuto {
		all = harmless
	}
	all[r.random.IntN(len(all))](r)
}

// one chooses a process that runs, nil if there is none.
func (r faults) one() *sim.Node {
	nodes := r.world.Running()
	if len(nodes) == 0 {
		return nil
	}
	return nodes[r.random.IntN(len(nodes))]
}

// few chooses up to half of those that run.
func (r faults) few() []*sim.Node {
	nodes := r.world.Running()
	r.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes[:r.random.IntN(len(nodes)/2+1)]
}

// forWhile does something, and undoes it after a while unless all is healed by
// then anyway.
func (r faults) forWhile(undo func()) {
	d := milliseconds(r.random, 50, pick(r.random, 1500.0, 8000, 30_000))
	r.world.After(d, func() {
		if !r.calm {
			undo()
		}
	})
}

// split cuts the servers in two halves off from each other for a while.
func (r faults) split() { split(r).cutOff(r.forWhile) }

func (r faults) join() {
	r.start(name(r.random.IntN(r.plan.nodes + 5)))
}

// restart kills a process and starts another under its name.
func (r faults) restart() {
	if n := r.one(); n != nil {
		if r.random.IntN(4) == 0 {
			r.world.KillHost(n)
		} else {
			r.world.Kill(n)
		}
		r.world.After(milliseconds(r.random, 0, 2000), func() { r.start(n.Address.Name) })
	}
}

func (r faults) kill() {
	if n := r.one(); n != nil {
		r.world.Kill(n)
	}
}

func (r faults) killSome() {
	for _, n := range r.few() {
		r.world.Kill(n)
	}
}

func (r faults) killHost() {
	if n := r.one(); n != nil {
		r.world.KillHost(n)
	}
}

// leave asks a node to leave; it is ready at once or after a while.
func (r faults) leave() {
	n := r.one()
	if n == nil || n.Frozen() {
		return
	}
	r.world.Give(n, membership.Leave{})
	r.world.After(milliseconds(r.random, 0, pick(r.random, 1.0, 3000)), func() { r.world.Give(n, membership.ExitReady{}) })
}

func (r faults) freeze() {
	if n := r.one(); n != nil {
		r.world.Freeze(n)
		r.forWhile(func() { r.world.Thaw(n) })
	}
}

// freezeSome makes some processes stand still, which go on one after the other.
func (r faults) freezeSome() {
	for _, n := range r.few() {
		r.world.Freeze(n)
		r.forWhile(func() { r.world.Thaw(n) })
	}
}

func (r faults) twoServers() (a, b *sim.Server) {
	s := r.world.Servers()
	return s[r.random.IntN(len(s))], s[r.random.IntN(len(s))]
}

// cut breaks one direction between two servers.
func (r faults) cut() {
	a, b := r.twoServers()
	r.world.Cut(a, b)
	r.forWhile(func() { r.world.Mend(a, b) })
}

func (r faults) part() {
	a, b := r.twoServers()
	r.world.Part(a, b)
	r.forWhile(func() { r.world.Mend(a, b) })
}

func (r faults) bounceServer() {
	s, _ := r.twoServers()
	r.world.StopServer(s)
	r.forWhile(func() { r.world.StartServer(s) })
}

func (r faults) bounceServers() {
	for _, s := range r.world.Servers() {
		r.world.StopServer(s)
		r.forWhile(func() { r.world.StartServer(s) })
	}
}

// deafen lets nothing get to a node.
func (r faults) deafen() {
	if n := r.one(); n != nil {
		r.world.Lose(n, 1, 0)
		r.forWhile(func() { r.world.Lose(n, 0, 0) })
	}
}

// mute lets nothing get from a node.
func (r faults) mute() {
	if n := r.one(); n != nil {
		r.world.Lose(n, 0, 1)
		r.forWhile(func() { r.world.Lose(n, 0, 0) })
	}
}

// loseSome makes some nodes lose a share of their messages, both ways.
func (r faults) loseSome() {
	for _, n := range r.few() {
		r.world.Lose(n, r.random.Float64()*0.9, r.random.Float64()*0.9)
		r.forWhile(func() { r.world.Lose(n, 0, 0) })
	}
}

func (r faults) loseAll() {
	r.world.LoseAll(r.random.Float64() * 0.5)
	r.forWhile(func() { r.world.LoseAll(0) })
}

// clog stops the ways of some nodes one after the other, and opens them in
// another order: swizzled clogs, as FoundationDB's simulation calls them.
func (r faults) clog() {
	for _, n := range r.few() {
		r.world.After(milliseconds(r.random, 0, 4000), func() {
			if !r.calm {
				r.world.Lose(n, 1, 1)
			}
		})
		r.world.After(milliseconds(r.random, 4000, 20_000), func() {
			if !r.calm {
				r.world.Lose(n, 0, 0)
			}
		})
	}
}

// downAlive is an operator that downs a member that may be healthy. An operator that takes a
// cut for a crash can split a cluster; this one does nothing during a cut.
func (r faults) downAlive() {
	n, victim := r.one(), r.one()
	if n == nil || n.Frozen() || !n.IsMember() || !r.world.Lease(n) || !r.world.Whole() {
		return
	}
	r.world.Give(n, membership.DownNode{Node: victim.Address})
}

// quarantine is a driver whose messages to a node in trouble do not arrive.
func (r faults) quarantine() {
	nodes := r.world.Nodes()
	n, peer := r.one(), nodes[r.random.IntN(len(nodes))]
	if n != nil && n != peer && peer.Impaired() && !n.Impaired() && r.world.Lease(n) {
		r.world.Give(n, membership.Undeliverable{Peer: peer.Address})
	}
}
