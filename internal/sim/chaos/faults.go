package chaos

import (
	"slices"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

type faults struct{ *run }

// kinds has each fault as many times as its weight.
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

var ofTable = []func(faults){
	faults.outage, faults.outage, faults.cutTable, faults.cutTable, faults.splitTable, faults.splitTable, faults.splitTable,
	faults.split, faults.part, faults.deafen, faults.disconnect, faults.disconnect,
}

// dividing are the faults that separate members from each other or from the table, or change the
// table's version.
var dividing = []func(faults){
	faults.outage, faults.outage, faults.cutTable, faults.cutTable, faults.splitTable, faults.splitTable, faults.splitTable,
	faults.split, faults.part, faults.cut, faults.deafen, faults.mute, faults.loseSome, faults.disconnect, faults.disconnect,
	faults.join, faults.join, faults.restart, faults.kill, faults.killHost, faults.leave, faults.freeze, faults.bounceServer,
	faults.quarantine, faults.downAlive, faults.move, faults.move, faults.move,
}

func (r faults) outage() {
	r.world.TableDown(true)
	r.forWhile(func() { r.world.TableDown(false) })
}

func (r faults) cutTable() {
	for _, n := range r.few() {
		r.world.CutTable(n, true)
		r.forWhile(func() { r.world.CutTable(n, false) })
	}
}

// splitTable lets only one server's processes reach the table, and often cuts that server off.
func (r faults) splitTable() {
	s, o := r.twoServers()
	for _, n := range r.world.Running() {
		if n.Server() == s {
			continue
		}
		r.world.CutTable(n, true)
		r.forWhile(func() { r.world.CutTable(n, false) })
	}
	if r.random.IntN(3) > 0 {
		r.world.Part(s, o)
		r.forWhile(func() { r.world.Mend(s, o) })
	}
}

func (r faults) disconnect() {
	for _, n := range r.few() {
		for range 1 + r.random.IntN(8) {
			r.world.After(milliseconds(r.random, 0, 10_000), func() {
				if !r.calm {
					r.world.Disconnect(n)
				}
			})
		}
	}
}

func (r faults) move() {
	from, to := r.twoServers()
	for _, n := range r.few() {
		if n.Server() == from {
			r.world.Move(n, to)
		}
	}
	if r.random.IntN(2) == 0 {
		r.world.Run(milliseconds(r.random, 0, 1500))
		r.world.Part(from, to)
		r.forWhile(func() { r.world.Mend(from, to) })
	}
}

// harmless are the faults that cut off no healthy process. With other faults, automatic downing
// would split the cluster.
var harmless = []func(faults){faults.join, faults.restart, faults.kill, faults.killSome, faults.killHost, faults.leave}

func (r faults) any() {
	all := kinds
	if r.plan.cramped {
		all = dividing
	} else if r.table {
		all = append(slices.Clone(kinds), ofTable...)
	}
	if r.plan.config.Downing == membership.DowningAuto {
		all = harmless
	}
	all[r.random.IntN(len(all))](r)
}

func (r faults) one() *sim.Node {
	nodes := r.world.Running()
	if len(nodes) == 0 {
		return nil
	}
	return nodes[r.random.IntN(len(nodes))]
}

func (r faults) few() []*sim.Node {
	nodes := r.world.Running()
	r.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes[:r.random.IntN(len(nodes)/2+1)]
}

// forWhile calls undo after a random time, unless heal has ended all faults by then.
func (r faults) forWhile(undo func()) {
	d := milliseconds(r.random, 50, pick(r.random, 1500.0, 8000, 30_000))
	r.world.After(d, func() {
		if !r.calm {
			undo()
		}
	})
}

func (r faults) split() { split(r).cutOff(r.forWhile) }

func (r faults) join() {
	r.start(name(r.random.IntN(r.plan.nodes + 5)))
}

func (r faults) restart() {
	if n := r.one(); n != nil {
		if r.random.IntN(4) == 0 {
			r.world.KillHost(n)
		} else {
			r.world.Kill(n)
		}
		r.told(n)
		r.world.After(milliseconds(r.random, 0, 2000), func() { r.start(n.Address.Name) })
	}
}

func (r faults) kill() {
	if n := r.one(); n != nil {
		r.world.Kill(n)
		r.told(n)
	}
}

func (r faults) killSome() {
	for _, n := range r.few() {
		r.world.Kill(n)
		r.told(n)
	}
}

func (r faults) killHost() {
	if n := r.one(); n != nil {
		r.world.KillHost(n)
		r.told(n)
	}
}

// told makes one or two operators down a dead process. Each tells a random member that runs then,
// so the two may tell different sides of a partition.
func (r faults) told(dead *sim.Node) {
	if !r.plan.told {
		return
	}
	for range 1 + r.operators.IntN(2) {
		r.world.After(milliseconds(r.operators, 0, 20_000), func() {
			nodes := slices.DeleteFunc(r.world.Running(), func(n *sim.Node) bool { return !n.IsMember() || n.Frozen() })
			if len(nodes) > 0 && !r.calm {
				r.world.Give(nodes[r.operators.IntN(len(nodes))], membership.DownNode{Node: dead.Address})
			}
		})
	}
}

// leave makes a node leave. The handoff ends at once, or after up to 3 s.
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

func (r faults) deafen() {
	if n := r.one(); n != nil {
		r.world.Lose(n, 1, 0)
		r.forWhile(func() { r.world.Lose(n, 0, 0) })
	}
}

func (r faults) mute() {
	if n := r.one(); n != nil {
		r.world.Lose(n, 0, 1)
		r.forWhile(func() { r.world.Lose(n, 0, 0) })
	}
}

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

// clog drops all messages of some nodes. The drops begin at random times, and end in another order
// ("swizzled clogs" in FoundationDB's simulation).
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

// downAlive acts as an operator who downs a possibly healthy member. It never does so while
// servers are cut off: mistaking a cut for a crash can split a cluster.
func (r faults) downAlive() {
	n, victim := r.one(), r.one()
	if n == nil || n.Frozen() || !n.IsMember() || !r.world.Lease(n) || !r.world.Whole() {
		return
	}
	r.world.Give(n, membership.DownNode{Node: victim.Address})
}

// quarantine reports to a healthy node, as its driver would, that an impaired peer cannot get its
// messages.
func (r faults) quarantine() {
	nodes := r.world.Nodes()
	if len(nodes) == 0 {
		return
	}
	n, peer := r.one(), nodes[r.random.IntN(len(nodes))]
	if n != nil && n != peer && peer.Impaired() && !n.Impaired() && r.world.Lease(n) {
		r.world.Give(n, membership.Undeliverable{Peer: peer.Address})
	}
}
