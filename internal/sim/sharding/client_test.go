package sharding

import (
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A client is the control plane of a process that is no member. It is the production code, on the
// world's time and control channel.
type client struct {
	*control.Client
	steps
}

func newClient(p *process) *client {
	c := &client{}
	c.Client = control.NewClient(control.ClientConfig{
		Cluster: clusterName, Self: p.self, Lanes: 1,
		Seekers: func(o singlehost.Client) *singlehost.Seekers {
			return singlehost.NewSeekers(o)
		},
	}, &clientEnv{worldEnv{p}})
	c.steps = steps{process: p, plane: c.Client}
	return c
}

// start begins the search for a member that serves the client.
func (c *client) start() {
	c.process.after(c.process.w.upTo(100*time.Millisecond), func() { c.do(c.Tick) })
}

// A clientEnv is a client in the role of package control's environment.
type clientEnv struct{ worldEnv }

var _ control.ClientEnv = (*clientEnv)(nil)

// Direct is not called, because no process has direct lanes.
func (v *clientEnv) Direct(transport.Peer, []byte) error { return nil }

func (v *clientEnv) Waiting(string) int { return v.process.held() }

func (v *clientEnv) SetTable(t *placement.Table) { v.process.takeTable(t) }

// BeginAnew forgets what the client knew of a former life of the cluster.
func (v *clientEnv) BeginAnew(members map[transport.Address]bool) {
	p := v.process
	p.w.log("%s begins anew", p.name)
	p.table = nil
	p.data.BeginAnew(members)
}

// AwaitsBounce reports whether a bounce may still prove that a process has not received a call.
func (v *clientEnv) AwaitsBounce() bool {
	for _, a := range v.Peers() {
		if v.process.links[a].AwaitsBounce() {
			return true
		}
	}
	return false
}

// Callable returns nothing: there are no singletons.
func (v *clientEnv) Callable(string) singlehost.Callable { return nil }

// Peers returns the processes with which this one has exchanged messages.
func (v *clientEnv) Peers() []transport.Address { return (*dataEnv)(v.process).Peers() }

// PeerGone closes the links to a process that is no longer a member.
func (v *clientEnv) PeerGone(a transport.Address) {
	v.process.data.PeerGone(a, calls.AllLanes, false)
}

// PeerAbsent records that a process is not in the list of members.
func (v *clientEnv) PeerAbsent(a transport.Address) { (*dataEnv)(v.process).MarkLeft(a) }

// PeerBack records that a process is in the list of members again.
func (v *clientEnv) PeerBack(a transport.Address) {
	delete(v.process.gone, a)
	delete(v.process.left, a)
	v.process.data.PeerBack(a)
}

func (v *clientEnv) Heard(time.Time)          {}
func (v *clientEnv) Served(map[string]uint32) {}
func (v *clientEnv) SetWhy(string, string)    {}

// Refused fails the run: all processes have the same version, so none is refused.
func (v *clientEnv) Refused(why error) { v.process.w.fail("%s: %v", v.process.name, why) }

// TurnedAway fails the run: no member has too many clients.
func (v *clientEnv) TurnedAway(by transport.Address, why error) {
	v.process.w.fail("%s: turned away by %v: %v", v.process.name, by, why)
}

// A worldEnv is the part of the control planes' environment that members and clients share.
type worldEnv struct{ process *process }

func (v worldEnv) Now() time.Time { return v.process.w.now }

// Link returns the process's connection to the control channel.
func (v worldEnv) Link() control.Link { return controlLink(v) }

func (v worldEnv) Log(l control.Level, text string, args ...any) {
	if l >= control.Info {
		v.process.w.log("%s: %s %v", v.process.name, text, args)
	}
}

// Count fails the run for a message that cannot be read or may not be sent. It accepts that a
// client asks too often.
func (v worldEnv) Count(e control.Counter) (uint64, bool) {
	if e != control.Ignored && e != control.OverQuota {
		v.process.w.fail("%s: a message of the control channel cannot be read", v.process.name)
	}
	return 1, false
}

// A controlLink is a process's connection to the control channel.
type controlLink struct{ process *process }

// Send sends a message to one process. The broker reports it if the receiver has no subscription.
func (l controlLink) Send(_ transport.Channel, to transport.Peer, _ uint64, payload []byte) error {
	p := l.process
	other := p.w.process(to.Address)
	if other == nil || !other.alive {
		p.w.post(p, p, func() { p.hear(transport.Message{Kind: transport.Unreachable, From: to.Address}) })
		return nil
	}
	l.post(other, payload)
	return nil
}

func (l controlLink) Broadcast(payload []byte) error {
	for _, to := range l.process.w.procs {
		if to.host && to.alive {
			l.post(to, payload)
		}
	}
	return nil
}

// Anycast sends a message to one member that serves.
func (l controlLink) Anycast(_ uint64, payload []byte) error {
	to := l.process.w.pick(func(p *process) bool { return p.host && p.alive && p.control.serves })
	if to != nil {
		l.post(to, payload)
	}
	return nil
}

// post sends a message. Tables arrive late at some processes.
func (l controlLink) post(to *process, payload []byte) {
	w, m := l.process.w, transport.Message{Payload: payload}
	if l.process.self.Client {
		m.From = l.process.self.Address
	}
	w.post(l.process, to, func() {
		deliver := func() { to.hear(m) }
		if to.late && w.faulty && isTable(payload) {
			to.after(w.upTo(w.plan.stale), deliver)
			return
		}
		deliver()
	})
}

func isTable(payload []byte) bool {
	_, topic, body, err := wire.OpenControl(clusterName, payload)
	if err != nil || topic != wire.ControlTopic_CONTROL_TOPIC_COORDINATOR {
		return false
	}
	m, err := coordinator.Decode(body)
	_, table := m.(coordinator.Table)
	return err == nil && table
}

// State reports that the connection is up. It never breaks here: only single messages are lost.
func (l controlLink) State(transport.Channel) transport.State {
	return transport.State{Connected: true}
}

func (l controlLink) MaxPayload() int { return 1 << 20 }

// hear handles a message of the control channel.
func (p *process) hear(m transport.Message) {
	if p.host {
		p.control.do(func() { p.control.Receive(m, p.w.now) })
	} else {
		p.client.do(func() { p.client.Receive(m) })
	}
}
