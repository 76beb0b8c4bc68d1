package singleton

import (
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// controlEnv is the environment of an actor's control plane.
type controlEnv actor

var _ control.Env = (*controlEnv)(nil)

func (v *controlEnv) actor() *actor { return (*actor)(v) }

func (v *controlEnv) Now() time.Time     { return v.actor().now() }
func (v *controlEnv) Link() control.Link { return (*controlLink)(v) }
func (v *controlEnv) Post(f func())      { v.actor().onLoop(f) }
func (v *controlEnv) After(d time.Duration, f func()) {
	v.actor().after(d, func() { v.actor().loop(f) })
}

// Log adds a line to the trace.
func (v *controlEnv) Log(l control.Level, text string, args ...any) {
	if v.run.handing && text == "singleton starts without what its predecessor sent" {
		v.run.fail("%s: %s, although no message was lost", v.self.Name, text)
	}
	if l >= control.Info {
		v.run.trace("%s: %s %v", v.self.Name, text, args)
	}
}

func (v *controlEnv) LogSeldom(l control.Level, text, _ string, args ...any) { v.Log(l, text, args...) }

// Count fails the run for a message that cannot be read.
func (v *controlEnv) Count(e control.Counter) (uint64, bool) {
	if e != control.Ignored {
		v.run.fail("%s: a message of the control channel cannot be read", v.self.Name)
	}
	return 1, false
}

// CountOf does the same as Count. It ignores the sender, because no process floods another.
func (v *controlEnv) CountOf(e control.Counter, _ string) (uint64, bool) { return v.Count(e) }

func (v *controlEnv) CountRefused(membership.Refusal) {}

// Direct is not called, because no process has direct lanes.
func (v *controlEnv) Direct(transport.Peer, []byte) error { return nil }

// The singleton's shard is the only one, so there are no other shards for a coordinator to
// allocate.

func (v *controlEnv) Shard(placement.ShardID) control.Shard { return nil }

func (v *controlEnv) Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard) {
	return nil, nil
}
func (v *controlEnv) InspectShards(string) []coordinator.InspectedShard { return nil }
func (v *controlEnv) HoldsShards() bool                                 { return false }
func (v *controlEnv) Unasked(bool) []string                             { return nil }
func (v *controlEnv) Waiting(string) int                                { return 0 }
func (v *controlEnv) WaitingTypes() []string                            { return nil }
func (v *controlEnv) SetTable(*placement.Table)                         {}
func (v *controlEnv) SetExiting(on bool)                                { v.exiting = on }

// PeerGone stops accepting messages from a process that was downed.
func (v *controlEnv) PeerGone(a transport.Address) { v.gone[a] = true }

// PeerLeft stops accepting messages from a process that has left, after calls.ByeGrace.
func (v *controlEnv) PeerLeft(a transport.Address) {
	v.left[a] = true
	v.actor().after(calls.ByeGrace, func() { v.gone[a] = true })
}

// Homes returns the process that has the instance, as far as this process knows. It returns nil if
// that process is unknown, has left, was removed, or is this process itself.
func (v *controlEnv) Homes() []transport.Address {
	a := v.found.Node
	if a.IsZero() || a == v.self.Address || v.gone[a] || v.left[a] {
		return nil
	}
	return []transport.Address{a}
}

func (v *controlEnv) RenewLease(time.Time)                                                 {} // the world keeps the lease
func (v *controlEnv) LeaseValid() bool                                                     { return v.run.world.Lease(v.node) }
func (v *controlEnv) TakeLease(membership.LeaseRequest)                                    {}
func (v *controlEnv) TakeTerm(atLeast uint32, take func(uint32, uint32))                   { take(atLeast, 0) }
func (v *controlEnv) LastTerm(func(uint32))                                                {}
func (v *controlEnv) Serve(on bool, _ func())                                              { v.serves = on }
func (v *controlEnv) Founding(membership.FoundingRequest, func(membership.FoundingAnswer)) {}
func (v *controlEnv) AskServer(membership.Question, []byte, func(membership.Asked))        {}
func (v *controlEnv) ReadTable(membership.TableRead, func(membership.TableRows))           {}
func (v *controlEnv) WriteTable(membership.TableWrite, func(membership.TableWritten))      {}
func (v *controlEnv) WriteAlive(membership.TableAlive, func(membership.TableWritten))      {}
func (v *controlEnv) Publish(*membership.View, []membership.Event)                         {}
func (v *controlEnv) Remember(transport.Address, []byte) error                             { return nil }
func (v *controlEnv) RememberView(*membership.View)                                        {}
func (v *controlEnv) Up()                                                                  {}
func (v *controlEnv) Leaving()                                                             {}
func (v *controlEnv) Left()                                                                {} // the world ends the process
func (v *controlEnv) Fail(err error)                                                       { v.run.fail("%s: %w", v.self.Name, err) }
func (v *controlEnv) Downed(string)                                                        {}
func (v *controlEnv) LeaveByOrder()                                                        {}
func (v *controlEnv) Operate(_ *operator.Request, _ func(operator.Answer))                 {}

type controlLink actor

func (l *controlLink) Send(_ transport.Channel, to transport.Peer, _ uint64, payload []byte) error {
	if other := l.run.actors[to.Address]; other != nil {
		l.post(other, payload)
	}
	return nil
}

func (l *controlLink) Broadcast(payload []byte) error {
	for _, other := range l.run.order {
		if !other.node.Ended() {
			l.post(other, payload)
		}
	}
	return nil
}

// Anycast sends a message to one member that serves.
func (l *controlLink) Anycast(_ uint64, payload []byte) error {
	var serve []*actor
	for _, other := range l.run.order {
		if other.serves && !other.node.Ended() {
			serve = append(serve, other)
		}
	}
	if len(serve) > 0 {
		l.post(serve[l.run.random.IntN(len(serve))], payload)
	}
	return nil
}

func (l *controlLink) post(to *actor, payload []byte) {
	l.run.send((*actor)(l), to, func() {
		to.loop(func() { to.control.Receive(transport.Message{Payload: payload}, to.now()) })
	})
}

// State reports that the connection is up. It never breaks here: only single messages are lost.
func (l *controlLink) State(transport.Channel) transport.State {
	return transport.State{Connected: true}
}

// MaxPayload returns the broker's limit, in bytes.
func (l *controlLink) MaxPayload() int { return 1 << 20 }
