package singleton

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
)

// name is the singleton's.
const name = "it"

// An actor is a node's part in the singleton: its manager and its proxy,
// driven as package shard does, and its instance.
type actor struct {
	run     *run
	node    *sim.Node
	manager *singleton.Manager
	proxy   *singleton.Proxy
	view    *membership.View // that the machines have
	waiting []func()         // inputs that came while the process stood still
	wake    [2]time.Duration // when the manager and the proxy are due; 0: not

	active  bool // an instance was started and has not stopped
	life    int  // numbers instances, so that late timers of one do not end another
	leaving bool // told to leave: exits when the singleton is given away
	forced  bool // exits although it is not: nothing is run from then on
	lease   leaseHold
	placed  singleton.Placement // the instance here; zero: none
}

// pollEvery is how often an actor looks at its timers and at the view.
const pollEvery = 20 * time.Millisecond

func (a *actor) poll() {
	if a.over() {
		return
	}
	a.do(func() {
		now := a.run.world.Now()
		a.look()
		if a.wake[0] != 0 && now >= a.wake[0] {
			a.step(singleton.Tick{})
		}
		if a.wake[1] != 0 && now >= a.wake[1] {
			a.find(singleton.Tick{})
		}
		a.lease.tick(a)
		a.exit()
	})
	a.run.world.After(pollEvery, a.poll)
}

// over reports whether the process has ended, and its instance with it.
func (a *actor) over() bool {
	if a.node.Ended() {
		a.active, a.placed = false, singleton.Placement{}
		return true
	}
	return false
}

// do does something in the process, or keeps it while that stands still.
func (a *actor) do(what func()) {
	switch {
	case a.over():
	case a.node.Frozen():
		a.waiting = append(a.waiting, what)
		if len(a.waiting) == 1 {
			a.run.world.After(pollEvery, a.thaw)
		}
	default:
		what()
	}
}

// thaw goes on with the inputs that were kept.
func (a *actor) thaw() {
	if a.over() {
		return
	}
	if a.node.Frozen() {
		a.run.world.After(pollEvery, a.thaw)
		return
	}
	kept := a.waiting
	a.waiting = nil
	for _, what := range kept {
		what()
	}
}

// look takes a new view in.
func (a *actor) look() {
	v := a.node.View()
	if v == nil || v == a.view {
		return
	}
	a.view = v
	var view singleton.View
	for _, m := range v.ByAge {
		view.Members = append(view.Members, singleton.Member{
			Address: m.Address, Status: statuses[m.Status], UpNumber: uint64(m.UpNumber),
		})
	}
	a.step(view)
	a.find(view)
}

var statuses = map[membership.Status]singleton.Status{
	membership.Joining: singleton.Joining, membership.WeaklyUp: singleton.WeaklyUp, membership.Up: singleton.Up,
	membership.Leaving: singleton.Leaving, membership.Exiting: singleton.Exiting, membership.Down: singleton.Down,
}

func (a *actor) clock() time.Time { return time.Unix(1_000_000, 0).Add(a.run.world.Now()) }

func (a *actor) due(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(1, at.Sub(time.Unix(1_000_000, 0)))
}

// step gives the manager one input and carries out its output.
func (a *actor) step(in singleton.Input) {
	if a.over() {
		return
	}
	out := a.manager.Step(a.clock(), in)
	a.wake[0] = a.due(out.WakeAt)
	for _, e := range out.Events {
		a.run.trace("%s %v %s: %s", a.node.Address.Name, e.State, e.Peer.Name, e.What)
	}
	if err := a.manager.Check(); err != nil {
		a.run.fail("manager of %v after %T: %w", a.node.Address, in, err)
	}
	if out.AcquireLease {
		a.lease.acquire(a)
	}
	if out.StartInstance {
		a.start(out)
	}
	if out.StopInstance {
		a.stop()
	}
	if out.ReleaseLease {
		a.lease.release(a)
	}
	for _, e := range out.Send {
		a.run.send(a, e)
	}
	a.run.check()
}

// start begins an instance, which may die by itself.
func (a *actor) start(out singleton.Output) {
	r := a.run
	a.active, a.placed = true, singleton.Placement{Node: a.node.Address, Epoch: out.Epoch}
	a.life++
	life := a.life
	r.counts.Started++
	r.trace("%s starts an instance under %v", a.node.Address.Name, out.Epoch)
	r.world.After(r.milliseconds(0, 20), func() {
		a.do(func() {
			if a.life == life && a.active {
				a.step(singleton.InstanceStarted{})
			}
		})
	})
	if r.random.IntN(4) == 0 && !r.calm {
		r.world.After(r.milliseconds(0, 5000), func() {
			a.do(func() {
				if a.life == life && a.active && !r.calm {
					r.counts.Died++
					a.end(singleton.InstanceStopped{Reason: "it died"})
				}
			})
		})
	}
}

// stop ends the instance after a while.
func (a *actor) stop() {
	a.life++
	a.run.world.After(a.run.milliseconds(0, 300), func() {
		a.do(func() { a.end(singleton.InstanceStopped{Handed: a.run.random.IntN(2) == 0}) })
	})
}

func (a *actor) end(in singleton.InstanceStopped) {
	a.active, a.placed = false, singleton.Placement{}
	a.life++
	a.run.trace("%s has no instance any more", a.node.Address.Name)
	a.step(in)
}

// find gives the proxy one input and carries out its output.
func (a *actor) find(in singleton.ProxyInput) {
	out := a.proxy.Step(a.clock(), in)
	a.wake[1] = a.due(out.WakeAt)
	for _, e := range out.Send {
		a.run.send(a, e)
	}
	if out.Found != nil {
		a.run.counts.Found++
		a.run.trace("%s finds the instance at %s under %v", a.node.Address.Name, out.Found.Node.Name, out.Found.Epoch)
	}
}

// receive takes a message.
func (a *actor) receive(from *actor, m singleton.Message) {
	switch m.Type {
	case singleton.Identity:
		a.find(singleton.Receive{From: from.node.Address, Message: m})
	case singleton.Identify:
		answer := singleton.Message{Name: name, Type: singleton.Identity, ID: m.ID, Reason: a.manager.Why()}
		if a.active {
			answer.Instance, answer.Epoch, answer.Reason = a.node.Address, a.placed.Epoch, ""
		}
		a.run.send(a, singleton.Envelope{To: from.node.Address, Message: answer})
	default:
		a.step(singleton.Receive{From: from.node.Address, Message: m})
	}
}

// exit lets a leaving node go once it has given the instance away, as package
// shard does.
func (a *actor) exit() {
	if !a.leaving || a.view == nil || a.view.SelfStatus != membership.Leaving {
		return
	}
	if a.manager.Holds() && a.run.plan.handOverAt == singleton.Leaving {
		if a.manager.Oldest().IsZero() {
			a.step(singleton.Quit{})
		}
		return
	}
	a.leaving = false
	a.run.world.Give(a.node, membership.ExitReady{})
}

// mayRun reports whether an active instance may really run at this moment.
func (a *actor) mayRun() bool {
	if !a.active || a.over() || a.node.Frozen() || a.forced {
		return false
	}
	if a.run.plan.guard == byLease {
		return a.run.world.Now() < a.lease.until
	}
	return a.run.plan.guard == byNothing || a.run.world.Lease(a.node)
}

func (a *actor) String() string {
	return fmt.Sprintf("%v (%v, active %v)", a.node.Address, a.manager.State(), a.active)
}

// ask brings a request to the store and its answer back, both after a while, if
// neither gets lost. sent is when it was sent: times count from there.
func (a *actor) ask(request func() bool, answer func(ok bool, sent time.Duration), lost func()) {
	r := a.run
	sent := r.world.Now()
	lose := func() bool { return !r.calm && r.random.Float64() < r.plan.storeLoss }
	limit := r.milliseconds(300, 1000)
	done := false
	finish := func(f func()) {
		a.do(func() {
			if !done {
				done = true
				f()
			}
		})
	}
	r.world.After(limit, func() { finish(lost) })
	if lose() {
		return
	}
	r.world.After(r.delay(), func() {
		ok := request()
		if !lose() {
			r.world.After(r.delay(), func() { finish(func() { answer(ok, sent) }) })
		}
	})
}
