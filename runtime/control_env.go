package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// controlEnv implements control's interface for a member: it is this process as the
// control plane uses it.
type controlEnv controlLoop

var _ control.Env = (*controlEnv)(nil)

// Link returns the control channel's connection to the broker.
func (v *controlEnv) Link() control.Link { return v.link }

// Now returns the time.
func (v *controlEnv) Now() time.Time { return time.Now() }

// Post has the control loop call f.
func (v *controlEnv) Post(f func()) { v.loop.Post(f) }

// After posts f after d.
func (v *controlEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() { v.loop.Post(f) })
}

// Log logs a line.
func (v *controlEnv) Log(l control.Level, text string, args ...any) {
	v.node.log.Log(context.Background(), l, text, args...)
}

// LogSeldom logs a line, and drops most repetitions of similar lines.
func (v *controlEnv) LogSeldom(l control.Level, text, subject string, args ...any) {
	v.driver.Limiter.Log(v.node.log, l, text, subject, "", args...)
}

// controlReasons maps the counters of package control to those of this process.
var controlReasons = [...]node.Reason{
	control.Foreign:   node.FrameForeign,
	control.Newer:     node.MessageNewer,
	control.Ignored:   node.FrameIgnored,
	control.Forbidden: node.MessageForbidden,
	control.OverQuota: node.ClientOverQuota,
}

// Count raises a counter by one.
func (v *controlEnv) Count(e control.Counter) (n uint64, tell bool) {
	return v.driver.Counts.AddSeldom(controlReasons[e])
}

// CountOf raises a counter by one, for an event caused by a process of that name.
func (v *controlEnv) CountOf(e control.Counter, name string) (n uint64, tell bool) {
	return v.driver.AddSeldomOf(controlReasons[e], name)
}

// CountRefused counts a message of the membership that was refused.
func (v *controlEnv) CountRefused(why membership.Refusal) { v.driver.Counts.Add(node.RefusedFor(why)) }

// Shard returns a shard of a type that this node hosts.
func (v *controlEnv) Shard(id placement.ShardID) control.Shard {
	if s := v.node.hostedShard(id); s != nil {
		return s
	}
	return nil
}

// Inventory returns the node's registration with a coordinator.
func (v *controlEnv) Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard) {
	return v.node.inventory()
}

// InspectShards returns the shards of a type, or of all.
func (v *controlEnv) InspectShards(kind string) []coordinator.InspectedShard {
	return v.node.inspectShards(kind)
}

// HoldsShards reports whether any shard is held here or is moving here or away, whether calls
// wait here, or whether a sender's Flush is still to come.
func (v *controlEnv) HoldsShards() bool { return v.driver.Data.Needs() }

// Remembered returns the hosted types whose entities are remembered, in order.
func (v *controlEnv) Remembered() (kinds []string) {
	for _, h := range v.node.hosted() {
		if h.Remembered != nil {
			kinds = append(kinds, h.Desc.Name)
		}
	}
	return kinds
}

// Waiting returns how many calls of a type wait for a home.
func (v *controlEnv) Waiting(kind string) int { return v.driver.HeldFor(kind) }

// WaitingTypes returns the types of such calls.
func (v *controlEnv) WaitingTypes() (kinds []string) {
	for kind := range *v.driver.Kinds.Load() {
		if v.driver.HeldFor(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// SetTable takes a newer table.
func (v *controlEnv) SetTable(t *placement.Table) { v.driver.SetTable(t) }

// SetExiting sets whether this node takes no shard any more, because it has nothing left to
// give away.
func (v *controlEnv) SetExiting(on bool) { v.driver.Exiting.Store(on) }

// PeerGone closes the sessions with a process that was downed.
func (v *controlEnv) PeerGone(a transport.Address) {
	v.driver.Data.PeerGone(a, calls.AllLanes, false)
}

// PeerLeft closes the sessions with a process that left in order, or with a home that is no
// member, when calls.ByeGrace has passed.
func (v *controlEnv) PeerLeft(a transport.Address) { v.driver.Data.PeerLeft(a) }

// Homes returns the other processes at the ends of routes, except those that have left or were
// removed.
func (v *controlEnv) Homes() []transport.Address { return v.driver.Data.Homes() }

// RenewLease sets the time until which turns may run.
func (v *controlEnv) RenewLease(until time.Time) { v.driver.Lease.Renew(until) }

// LeaseValid reports whether the lease lasts at this moment.
func (v *controlEnv) LeaseValid() bool { return v.driver.Lease.Lasts() }

// TakeLease asks the store for the lease that decides a split. The loop goes on meanwhile.
func (v *controlEnv) TakeLease(r membership.LeaseRequest) {
	claim := store.Claim{
		Name:   fmt.Sprintf("%s/downing/%s=%016x", v.node.cfg.Cluster, r.Founder.Name, r.Founder.Incarnation),
		Holder: v.driver.Local.Address.String(), TTL: r.TTL, Over: r.Over,
	}
	v.driver.Group.Go(func() {
		ctx, cancel := context.WithTimeout(v.driver.Context, r.Within)
		defer cancel()
		answer := takeSplitLease(ctx, v.node.cfg.Store, claim, v.node.log)
		answer.Seq = r.Seq
		v.loop.Post(func() { v.member.LeaseAnswer(answer) })
	})
}

// TakeTerm takes a coordinator's term from the store, if there is one.
func (v *controlEnv) TakeTerm(atLeast uint32, take func(term, before uint32)) {
	process := v.driver.Durable
	if process == nil {
		take(atLeast, 0)
		return
	}
	v.driver.Group.Go(func() {
		if term, before, err := process.TakeTerm(atLeast); err == nil { // else the node has ended
			v.loop.Post(func() { take(term, before) })
		}
	})
}

// LastTerm reads the highest term from the store, if there is one.
func (v *controlEnv) LastTerm(take func(term uint32)) {
	process := v.driver.Durable
	if process == nil {
		return
	}
	v.driver.Group.Go(func() {
		term := process.LastTerm()
		v.loop.Post(func() { take(term) })
	})
}

// Serve tells the broker whether it may direct processes that have no table to this
// member.
func (v *controlEnv) Serve(on bool, then func()) {
	v.serves.wished.Store(on)
	v.driver.Group.Go(func() {
		if v.serves.announce(v.driver.Context, v.link, v.node.log) && then != nil {
			v.loop.Post(then)
		}
	})
}

// Founding reads or writes the store's record of who founded the cluster.
func (v *controlEnv) Founding(r membership.FoundingRequest, answer func(membership.FoundingAnswer)) {
	v.driver.Group.Go(func() {
		ctx, cancel := context.WithTimeout(v.driver.Context, r.Within)
		defer cancel()
		a := durablehost.Founding(ctx, v.node.cfg.Store, v.node.cfg.Cluster, r)
		v.loop.Post(func() { answer(a) })
	})
}

// Publish passes changes of the cluster to the readers of Node.Events.
func (v *controlEnv) Publish(view *membership.View, events []membership.Event) {
	v.node.events.publish(view, events)
}

// Remember handles a message about remembered entities.
func (v *controlEnv) Remember(from transport.Address, body []byte) error {
	return v.node.memory.Message(from, body)
}

// Direct handles a message about direct lanes.
func (v *controlEnv) Direct(from transport.Peer, body []byte) error {
	return v.driver.DirectMessage(from, body)
}

// RememberView passes the members to the memory of remembered entities.
func (v *controlEnv) RememberView(view *membership.View) { v.node.memory.ViewChanged(view) }

// Up records that the cluster has admitted the node.
func (v *controlEnv) Up() { v.node.isUp() }

// Leaving records that the node is leaving the cluster.
func (v *controlEnv) Leaving() { v.driver.Leaving.Store(true) }

// Left records the removal of the node, after it left in order.
func (v *controlEnv) Left() { v.node.left() }

// Fail ends the node.
func (v *controlEnv) Fail(err error) { v.node.fail(err) }

// Downed ends the node, which the other members declared down.
func (v *controlEnv) Downed(reason string) {
	v.node.fail(fmt.Errorf("%w: %s (start the process anew)", ErrDowned, reason))
}

// LeaveByOrder makes the node leave, on an operator's request.
func (v *controlEnv) LeaveByOrder() { v.node.leaveByOrder() }

// Operate carries out an operator's request. It does not block the control loop, because decoders
// are the user's code and may take long, and shards are many.
func (v *controlEnv) Operate(r *operator.Request, answer func(operator.Answer)) {
	v.driver.Group.Go(func() {
		a, err := inspections{v.node}.answer(v.driver.Context, r)
		if err != nil {
			a.Refusal = err.Error()
		}
		v.loop.Post(func() { answer(a) })
	})
}

// decisions returns a function that keeps events of the coordinator for operators. A node's own
// log has them at level debug only.
func decisions(lines *operator.EventLog) func(coordinator.Event) {
	return func(e coordinator.Event) {
		about := slices.DeleteFunc([]string{e.Subject(), e.Reason}, func(s string) bool { return s == "" })
		line := operator.Line{Time: time.Now(), Level: slog.LevelInfo, Text: "coordinator: " + e.What.String(), Attrs: strings.Join(about, ": ")}
		if e.Shard.Shard != 0 {
			lines.AddBulk(line)
			return
		}
		lines.Add(line)
	}
}

// leaseRetry is the time between two tries while the store does not answer.
const leaseRetry = 500 * time.Millisecond

// takeSplitLease tries to take the lease that decides a split, until ctx ends.
func takeSplitLease(ctx context.Context, leases store.Lease, claim store.Claim, log *slog.Logger) membership.LeaseAnswer {
	for {
		held, err := leases.Acquire(ctx, claim)
		switch {
		case err == nil:
			log.Warn("took the lease that decides a split", "lease", claim.Name, "token", held.Token)
			return membership.LeaseAnswer{Token: held.Token}
		case errors.Is(err, store.ErrHeld):
			return membership.LeaseAnswer{Held: true, Reason: err.Error()}
		}
		log.Warn("the lease that decides a split was not taken", "lease", claim.Name, "err", err)
		select {
		case <-ctx.Done():
			return membership.LeaseAnswer{Reason: err.Error()}
		case <-time.After(leaseRetry):
		}
	}
}
