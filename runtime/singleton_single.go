package shard

import (
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// openPatience bounds the wait for state that a predecessor has announced.
const openPatience = 5 * time.Second

// single is one singleton as the control loop of a node knows it. Its manager decides
// where it lives, and its proxy finds it. For the data plane, which delivers its calls, it
// is a kind of one shard.
type single struct {
	control  *control
	kind     *kind
	proxy    *singleton.Proxy
	manager  *singleton.Manager // nil where the type is not hosted
	instance *instance          // nil where the type is not hosted
	keeper   *leaseKeeper       // nil without a lease
	wakes    [2]time.Time       // of proxy and manager
	opening  *opening           // an instance that waits for its predecessor
	arrived  opening            // whose Open came last, and under which epoch
}

// opening is a shard that is on its way here.
type opening struct {
	from  transport.Address
	epoch placement.Epoch
	until time.Time
}

// view takes who may run the instance: members that announced it at joining.
func (s *single) view(v *membership.View) {
	var view singleton.View
	for _, m := range v.ByAge {
		if hostsSingleton(m.Member, s.kind.desc.Name) {
			view.Members = append(view.Members, singleton.Member{
				Address: m.Address, Status: statusOf(m.Status), UpNumber: uint64(m.UpNumber),
			})
		}
	}
	if s.manager != nil {
		s.step(view)
	}
	s.search(view)
}

// step gives the manager one input and does what it says.
func (s *single) step(in singleton.Input) {
	before := s.manager.Holds()
	out := s.manager.Step(time.Now(), in)
	s.wakes[1] = out.WakeAt
	log := s.control.node.log.With("kind", s.kind.desc.Name)
	for _, e := range out.Events {
		level := log.Debug
		switch {
		case e.Stuck:
			level = log.Warn
		case out.StartInstance || out.StopInstance:
			level = log.Info
		}
		level("singleton", "state", e.State.String(), "peer", e.Peer.String(), "what", e.What)
	}
	if out.AcquireLease {
		s.keeper.acquire()
	}
	if out.StartInstance {
		s.start(out.Epoch, out.Predecessor)
	}
	if out.StopInstance {
		s.stop(out.Successor, out.Epoch)
	}
	if out.ReleaseLease {
		s.keeper.release()
	}
	for _, e := range out.Send {
		s.control.singles.send(transport.Peer{Address: e.To}, e.Message)
	}
	if before && !s.manager.Holds() {
		s.control.checkExit()
	}
}

// start brings the instance to life: anew where it died, with what the
// predecessor sends, or from nothing.
func (s *single) start(epoch placement.Epoch, from transport.Address) {
	if s.instance.again() {
		return
	}
	s.opening = &opening{from, epoch, time.Now().Add(openPatience)}
	sh := s.instance.shard
	switch {
	case from.IsZero() || s.control.plane.hasDeparted(from, sh.lane):
		s.open(false)
	case s.arrived.from == from && s.arrived.epoch == epoch:
		s.open(true)
	}
}

// predecessorOpened: all that waited at the predecessor has come.
func (s *single) predecessorOpened(from transport.Address, epoch placement.Epoch) {
	s.arrived = opening{from: from, epoch: epoch}
	if o := s.opening; o != nil && o.from == from && o.epoch == epoch {
		s.open(true)
	}
}

// open lets the shard run here: by the predecessor's word, or without it.
func (s *single) open(arrived bool) {
	o := s.opening
	s.opening = nil
	s.instance.shard.Do(func(now uint32, at time.Time) region.Effects {
		core := s.instance.shard.Core
		if arrived {
			if fx := core.OpenAt(o.from, o.epoch, now, at); fx.Opened {
				s.control.plane.counters.add(shardMovedIn)
				return fx
			}
		}
		if core.State() == region.Preparing { // a part of a state is none
			core.CancelMove(core.MoveEpoch())
		}
		epoch := o.epoch
		if epoch <= core.Epoch() {
			epoch = core.Epoch() + 1
		}
		return core.Place(s.control.self, epoch, false, now, at)
	})
}

// stop ends the instance, and gives what waits for it to the successor if there
// is one.
func (s *single) stop(to transport.Address, epoch placement.Epoch) {
	if s.opening != nil {
		s.opening = nil
		s.instance.post(singleton.InstanceStopped{})
		return
	}
	s.instance.stop(to, epoch)
}

// search gives the proxy one input and does what it says.
func (s *single) search(in singleton.ProxyInput) {
	c := s.control
	out := s.proxy.Step(time.Now(), in)
	s.wakes[0] = out.WakeAt
	for _, e := range out.Send {
		c.singles.send(transport.Peer{Address: e.To}, e.Message)
	}
	c.setWhy(s.kind.desc.Name, s.proxy.Why())
	if out.Found == nil {
		return
	}
	s.kind.found(out.Found.Node, out.Found.Epoch, s.manager != nil && s.manager.Holds())
	for _, client := range c.gateway.clients {
		c.singles.send(client.peer, singleton.Message{
			Name: singletonPrefix + s.kind.desc.Name, Type: singleton.Identity, Instance: out.Found.Node, Epoch: out.Found.Epoch,
		})
	}
}

// found brings the shard and the route of a singleton to where it runs. A node
// that still has something of the instance knows better itself.
func (k *kind) found(node transport.Address, epoch placement.Epoch, holds bool) {
	if len(k.routes) == 0 {
		return // nobody calls it here
	}
	if k.host != nil && !holds {
		k.host.shards[0].Place(node, epoch, 0)
	}
	k.routes[0].Found(node, epoch)
}
