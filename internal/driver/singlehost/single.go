package singlehost

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// openPatience bounds the wait for the state that a predecessor has announced.
const openPatience = 5 * time.Second

// A single is one singleton at a member, on the control loop. The manager decides whether its
// instance runs here, and the proxy finds it.
type single struct {
	set       *Set
	kind      string
	callable  Callable // nil if this process does not call it
	proxy     *singleton.Proxy
	proxyAt   time.Time          // when proxy is due
	manager   *singleton.Manager // nil if this member does not host the type
	managerAt time.Time          // when manager is due
	instance  *Instance          // nil if this member does not host the type
	holder    *leaseHolder       // nil without a lease
	opening   *opening           // the shard while it waits for its predecessor; nil while it does not wait
	arrived   opening            // sender and epoch of the last Open that has arrived
}

type opening struct {
	from  transport.Address
	epoch placement.Epoch
	until time.Time
	next  *handoff // the member to which the shard goes on at once; nil means none
}

type handoff struct {
	to    transport.Address
	epoch placement.Epoch
}

// view passes the members that may run the instance to the manager and the proxy.
func (s *single) view(v *membership.View) {
	var view singleton.View
	for _, m := range v.ByAge {
		if hostmeta.HostsSingleton(m.Member, s.kind) {
			view.Members = append(view.Members, singleton.Member{
				Address: m.Address, Status: m.Status, UpNumber: m.UpNumber,
			})
		}
	}
	if s.manager != nil {
		if from := s.instance.arrivedFrom(); !from.IsZero() {
			s.step(singleton.Arrived{From: from})
		}
		s.step(view)
	}
	s.search(view)
}

func (s *single) step(in singleton.Input) {
	before := s.manager.Holds()
	out := s.manager.Step(s.set.process.Now(), in)
	s.managerAt = out.WakeAt
	for _, e := range out.Events {
		level := slog.LevelDebug
		switch {
		case e.Stuck:
			level = slog.LevelWarn
		case out.StartInstance || out.StopInstance:
			level = slog.LevelInfo
		}
		s.set.process.Log(level, "singleton", "kind", s.kind, "state", e.State.String(), "peer", e.Peer.String(), "what", e.What)
	}
	if out.AcquireLease {
		s.holder.acquire()
	}
	if out.StartInstance {
		s.start(out.Epoch, out.Predecessor, out.Relay)
	}
	if out.StopInstance {
		s.stop(out.Successor, out.SuccessorEpoch)
	}
	if out.ReleaseLease {
		s.holder.release()
	}
	for _, e := range out.Send {
		s.set.send(transport.Peer{Address: e.To}, e.Message)
	}
	if before && !s.manager.Holds() {
		s.set.process.GaveAway()
	}
}

// start activates the instance again if the instance died here. Otherwise it opens the shard, with
// the state of the predecessor from unless from is zero. If relay is set, this member only keeps
// what the predecessor sends, for the next member.
func (s *single) start(epoch placement.Epoch, from transport.Address, relay bool) {
	s.instance.relay(relay)
	if s.instance.again() {
		return
	}
	s.opening = &opening{from: from, epoch: epoch, until: s.set.process.Now().Add(openPatience)}
	switch {
	case from.IsZero() || s.instance.home.HasDeparted(from):
		s.open(false)
	case s.arrived.from == from && s.arrived.epoch == epoch:
		s.open(true)
	}
}

// predecessorOpened handles the predecessor's Open, which comes after all calls that waited there.
func (s *single) predecessorOpened(from transport.Address, epoch placement.Epoch) {
	s.arrived = opening{from: from, epoch: epoch}
	if o := s.opening; o != nil && o.from == from && o.epoch == epoch {
		s.open(true)
	}
}

func (s *single) open(arrived bool) {
	o := s.opening
	s.opening = nil
	if o.next != nil {
		defer s.instance.stop(o.next.to, o.next.epoch)
	}
	s.instance.shard.Do(func(now uint32, at time.Time) region.Effects {
		core := s.instance.shard.Core
		if arrived {
			if fx := core.OpenAt(o.from, o.epoch, now, at); fx.Opened {
				s.instance.home.Count(shardhost.MovedIn)
				return fx
			}
		}
		if core.State() == region.Preparing { // a part of a state is of no use
			core.CancelMove(core.MoveEpoch())
		}
		epoch := o.epoch
		if epoch <= core.Epoch() {
			epoch = core.Epoch() + 1
		}
		return core.Place(s.set.self.Address, epoch, false, now, at)
	})
}

// stop ends the instance. The next member, to, gets the state and waiting calls, also those still
// on their way here; zero means none.
func (s *single) stop(to transport.Address, epoch placement.Epoch) {
	switch o := s.opening; {
	case o == nil:
		s.instance.stop(to, epoch)
	case to.IsZero():
		s.opening = nil
		s.instance.post(singleton.InstanceStopped{})
	default:
		o.next = &handoff{to, epoch}
		s.instance.relay(true)
	}
}

func (s *single) search(in singleton.ProxyInput) {
	p := s.set.process
	out := s.proxy.Step(p.Now(), in)
	s.proxyAt = out.WakeAt
	for _, e := range out.Send {
		s.set.send(transport.Peer{Address: e.To}, e.Message)
	}
	p.SetWhy(s.kind, s.proxy.Why())
	if out.Found == nil {
		return
	}
	if s.callable != nil {
		s.callable.Found(out.Found.Node, out.Found.Epoch, s.manager != nil && s.manager.Holds())
	}
	for _, client := range p.Clients() {
		s.set.send(client, singleton.Message{
			Name: namePrefix + s.kind, Type: singleton.Identity, Instance: out.Found.Node, Epoch: out.Found.Epoch,
		})
	}
}

func (s *single) at() transport.Address {
	if s.instance != nil {
		if _, here := s.instance.at(); here {
			return s.set.self.Address
		}
	}
	if s.proxy.Why() != "" {
		return transport.Address{}
	}
	return s.proxy.Found().Node
}
