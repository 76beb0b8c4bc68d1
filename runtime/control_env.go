package shard

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/control"
	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/internal/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// controlEnv is a controlLoop as package control uses it: this process.
type controlEnv controlLoop

var _ control.Env = (*controlEnv)(nil)

// Link returns the control channel's connection to the broker.
func (v *controlEnv) Link() control.Link { return v.link }

// Now is the time.
func (v *controlEnv) Now() time.Time { return time.Now() }

// Post has f called on the control loop.
func (v *controlEnv) Post(f func()) { v.loop.Post(f) }

// After is Post after d.
func (v *controlEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() { v.loop.Post(f) })
}

// Log logs a line.
func (v *controlEnv) Log(l control.Level, text string, args ...any) {
	v.node.log.Log(context.Background(), slog.Level(l), text, args...)
}

// LogSeldom logs a line, but for most of those that are alike.
func (v *controlEnv) LogSeldom(l control.Level, text, subject string, args ...any) {
	v.plane.seldom.log(v.node.log, slog.Level(l), text, subject, "", args...)
}

// controlReasons maps the counters of package control to those of this process.
var controlReasons = [...]reason{
	control.Foreign: frameForeign,
	control.Newer:   messageNewer,
	control.Ignored: frameIgnored,
}

// Count counts an event.
func (v *controlEnv) Count(e control.Event) (n uint64, tell bool) {
	return v.plane.counters.addSeldom(controlReasons[e])
}

// CountRefused counts a message of the membership that was refused.
func (v *controlEnv) CountRefused(why membership.Refusal) { v.plane.counters.add(refusedFor(why)) }

// Shard returns a shard of a type that is hosted here.
func (v *controlEnv) Shard(id placement.ShardID) control.Shard {
	if s := v.node.hostedShard(id); s != nil {
		return s
	}
	return nil
}

// Inventory returns the node's registration with a coordinator.
func (v *controlEnv) Inventory() (kinds []coordinator.KindInfo, owned []coordinator.Owned) {
	return v.node.inventory()
}

// Held returns the shards of a type, or of all.
func (v *controlEnv) Held(kind string) []coordinator.Held { return v.node.held(kind) }

// HoldsShards reports whether any shard is still here, or on its way here or away.
func (v *controlEnv) HoldsShards() bool { return v.node.holdsShards() }

// Remembered returns the hosted types whose entities are remembered, in order.
func (v *controlEnv) Remembered() (kinds []string) {
	for _, h := range v.node.hosted() {
		if h.remembered != nil {
			kinds = append(kinds, h.desc.Name)
		}
	}
	return kinds
}

// Waiting returns how many calls of a type wait for a home.
func (v *controlEnv) Waiting(kind string) int { return v.plane.heldFor(kind) }

// WaitingKinds returns the types of such calls.
func (v *controlEnv) WaitingKinds() (kinds []string) {
	for kind := range *v.plane.kinds.Load() {
		if v.plane.heldFor(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// SetTable takes a newer table.
func (v *controlEnv) SetTable(t *placement.Table) { v.plane.setTable(t) }

// SetExiting has the shards take nothing any more, or again.
func (v *controlEnv) SetExiting(on bool) { v.plane.exiting.Store(on) }

// PeerGone ends the dealings with a process that is dead.
func (v *controlEnv) PeerGone(a transport.Address) { v.plane.peers.peerGone(a, -1, false) }

// PeerLeft ends the dealings with a process that left in order.
func (v *controlEnv) PeerLeft(a transport.Address) { v.plane.peers.peerLeft(a) }

// Homes returns the processes that routes lead to, but for those with which the dealings
// have ended.
func (v *controlEnv) Homes() []transport.Address {
	return slices.DeleteFunc(v.plane.homes(), func(a transport.Address) bool {
		return v.plane.peers.HasLeft(a) || v.plane.peers.HasGone(a)
	})
}

// RenewLease sets the time until which turns may run.
func (v *controlEnv) RenewLease(until time.Time) { v.plane.lease.Renew(until) }

// LeaseValid reports whether turns may run at this moment.
func (v *controlEnv) LeaseValid() bool { return v.plane.lease.Valid() }

// TakeLease asks the store for the lease that decides a split. The loop goes on meanwhile.
func (v *controlEnv) TakeLease(r membership.LeaseRequest) {
	claim := store.Claim{
		Name:   fmt.Sprintf("%s/downing/%s=%016x", v.node.cfg.Cluster, r.Founder.Name, r.Founder.Incarnation),
		Holder: v.plane.self.Address.String(), TTL: r.TTL, Over: r.Over,
	}
	v.plane.wg.Go(func() {
		ctx, cancel := context.WithTimeout(v.plane.ctx, r.Within)
		defer cancel()
		answer := takeSplitLease(ctx, v.node.cfg.Store, claim, v.node.log)
		answer.Seq = r.Seq
		v.loop.Post(func() { v.member.LeaseAnswer(answer) })
	})
}

// TakeTerm takes a coordinator's term from the store, if there is one.
func (v *controlEnv) TakeTerm(atLeast uint32, take func(term uint32)) {
	process := v.plane.durable
	if process == nil {
		take(atLeast)
		return
	}
	v.plane.wg.Go(func() {
		if term, err := process.TakeTerm(atLeast); err == nil { // else the node has ended
			v.loop.Post(func() { take(term) })
		}
	})
}

// LastTerm reads the highest term from the store, if there is one.
func (v *controlEnv) LastTerm(take func(term uint32)) {
	process := v.plane.durable
	if process == nil {
		return
	}
	v.plane.wg.Go(func() {
		term := process.LastTerm()
		v.loop.Post(func() { take(term) })
	})
}

// Serve tells the broker whether processes without a table may be sent here.
func (v *controlEnv) Serve(on bool) {
	v.serves.wished.Store(on)
	v.plane.wg.Go(func() { v.serves.announce(v.plane.ctx, v.link, v.node.log) })
}

// Publish tells the user of changes of the cluster.
func (v *controlEnv) Publish(view *membership.View, events []membership.Event) {
	v.node.events.publish(view, events)
}

// Remember takes a message about remembered entities.
func (v *controlEnv) Remember(from transport.Address, body []byte) error {
	return v.node.memory.Message(from, body)
}

// RememberView gives the memory the members.
func (v *controlEnv) RememberView(view *membership.View) { v.node.memory.ViewChanged(view) }

// Up notes that the cluster has let the node in.
func (v *controlEnv) Up() { v.node.isUp() }

// Leaving notes that the node is on its way out of the cluster.
func (v *controlEnv) Leaving() { v.plane.leaving.Store(true) }

// Left notes that the cluster has let the node go in order.
func (v *controlEnv) Left() { v.node.left() }

// Fail ends the node.
func (v *controlEnv) Fail(err error) { v.node.fail(err) }

// Downed ends the node, which the others declared dead.
func (v *controlEnv) Downed(reason string) {
	v.node.fail(fmt.Errorf("%w: %s (start the process anew)", ErrDowned, reason))
}

// LeaveByOrder has the node leave, by an operator's command.
func (v *controlEnv) LeaveByOrder() { v.node.leaveByOrder() }

// States serves an operator's requests about the states of entities of this node. Decoders are the
// user's, and may take long, so that the loop goes on meanwhile.
func (v *controlEnv) States(r *operator.Request, answer func(operator.Answer)) {
	v.plane.wg.Go(func() {
		var a operator.Answer
		var err error
		if a.Entities, err = (repairs{v.node}).states(r); err != nil {
			a.Refusal = err.Error()
		}
		v.loop.Post(func() { answer(a) })
	})
}
