package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"
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

type controlEnv controlLoop

var _ control.Env = (*controlEnv)(nil)

// Link returns the control channel's connection to the broker.
func (v *controlEnv) Link() control.Link { return v.link }

func (v *controlEnv) Now() time.Time { return time.Now() }

func (v *controlEnv) Post(f func()) { v.loop.Post(f) }

func (v *controlEnv) After(d time.Duration, f func()) {
	time.AfterFunc(d, func() { v.loop.Post(f) })
}

func (v *controlEnv) Log(l control.Level, text string, args ...any) {
	v.node.log.Log(context.Background(), l, text, args...)
}

// LogSeldom writes a log line, and drops most repetitions of lines with the same text and subject.
func (v *controlEnv) LogSeldom(l control.Level, text, subject string, args ...any) {
	v.driver.Limiter.Log(v.node.log, l, text, subject, "", args...)
}

var controlReasons = [...]node.Reason{
	control.Foreign:   node.FrameForeign,
	control.Newer:     node.MessageNewer,
	control.Ignored:   node.FrameIgnored,
	control.Forbidden: node.MessageForbidden,
	control.OverQuota: node.ClientOverQuota,
}

// Count raises the counter of e, and returns its new value and whether to log the event.
func (v *controlEnv) Count(e control.Counter) (n uint64, tell bool) {
	return v.driver.Counts.AddSeldom(controlReasons[e])
}

// CountOf raises the counter of e for an event caused by the process of this name.
func (v *controlEnv) CountOf(e control.Counter, name string) (n uint64, tell bool) {
	return v.driver.AddSeldomOf(controlReasons[e], name)
}

// CountRefused counts a membership message that this node refused.
func (v *controlEnv) CountRefused(why membership.Refusal) { v.driver.Counts.Add(node.RefusedFor(why)) }

// Shard returns one shard of a type that this node hosts.
func (v *controlEnv) Shard(id placement.ShardID) control.Shard {
	if s := v.node.hostedShard(id); s != nil {
		return s
	}
	return nil
}

// Inventory returns the types and shards with which the node registers at a coordinator.
func (v *controlEnv) Inventory() (kinds []coordinator.TypeInfo, held []coordinator.HeldShard) {
	return v.node.inventory()
}

// InspectShards returns the shards of a type that this node holds, or of all types if kind is "".
func (v *controlEnv) InspectShards(kind string) []coordinator.InspectedShard {
	return v.node.inspectShards(kind)
}

// HoldsShards reports whether this node still has work with shards: it holds a shard, a shard is
// moving to or from it, calls wait in it, a tell of it must be sent to another home, or a sender's
// Flush has not arrived. A Flush is the message behind a sender's last call.
func (v *controlEnv) HoldsShards() bool { return v.driver.Data.Needs() }

// Unasked returns, in the order of their names, the hosted types whose shards need homes even if
// nobody calls: the types with remembered entities, and the types whose shards run functions. If
// later is true, it also returns the durable types except singletons, because their reminders,
// tells and messages may wait in the store.
func (v *controlEnv) Unasked(later bool) (kinds []string) {
	for _, h := range v.node.hosted() {
		if h.Remembered != nil || h.Parts != nil || later && h.Desc.Durable && !h.Desc.Singleton {
			kinds = append(kinds, h.Desc.Name)
		}
	}
	return kinds
}

// Waiting returns how many calls of a type wait at this process because their shards have no home.
func (v *controlEnv) Waiting(kind string) int { return v.driver.HeldFor(kind) }

// WaitingTypes returns the sorted names of the types for which calls wait at this process. These
// calls wait because their shards have no home.
func (v *controlEnv) WaitingTypes() (kinds []string) {
	for kind := range *v.driver.Kinds.Load() {
		if v.driver.HeldFor(kind) > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// SetTable replaces the shard table by a newer one.
func (v *controlEnv) SetTable(t *placement.Table) { v.driver.SetTable(t) }

// SetExiting sets whether this node refuses to take shards. A leaving node does so after it has
// given all its own shards away.
func (v *controlEnv) SetExiting(on bool) { v.driver.Exiting.Store(on) }

// PeerGone closes the sessions with a process that was downed.
func (v *controlEnv) PeerGone(a transport.Address) {
	v.driver.Data.PeerGone(a, calls.AllLanes, false)
}

// PeerLeft closes, after calls.ByeGrace, the sessions with a member that left in order, or with a
// former member that was a home.
func (v *controlEnv) PeerLeft(a transport.Address) { v.driver.Data.PeerLeft(a) }

// Homes returns the other processes to which calls are routed, except processes that have left or
// were removed.
func (v *controlEnv) Homes() []transport.Address { return v.driver.Data.Homes() }

// RenewLease extends the node's lease: turns may run until the given time.
func (v *controlEnv) RenewLease(until time.Time) { v.driver.Lease.Renew(until) }

// LeaseValid reports whether the node's lease to run turns is valid now.
func (v *controlEnv) LeaseValid() bool { return v.driver.Lease.Lasts() }

// TakeLease asks the store for the lease that decides a network partition. The control loop does
// not wait for the answer.
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

// TakeTerm gets the term of a new coordinator from the store. The term is at least atLeast.
// TakeTerm calls take with this term and with the term that the store had before. Without a store
// it calls take with atLeast and 0.
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

// LastTerm reads the highest coordinator term from the store and calls take with it. Without a
// store it does nothing.
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

// Serve tells the broker whether it may direct clients without a shard table to this member. Once
// the broker knows, Serve calls the function then on the control loop.
func (v *controlEnv) Serve(on bool, then func()) {
	v.serves.wished.Store(on)
	v.driver.Group.Go(func() {
		if v.serves.announce(v.driver.Context, v.link, v.node.log) && then != nil {
			v.loop.Post(then)
		}
	})
}

// Founding reads or writes the store's record of the node that founded the cluster.
func (v *controlEnv) Founding(r membership.FoundingRequest, answer func(membership.FoundingAnswer)) {
	v.driver.Group.Go(func() {
		ctx, cancel := context.WithTimeout(v.driver.Context, r.Within)
		defer cancel()
		a := durablehost.Founding(ctx, v.node.cfg.Store, v.node.cfg.Cluster, r)
		v.loop.Post(func() { answer(a) })
	})
}

// maxAsking bounds the unanswered questions to one server.
const maxAsking = 8

// serverPatience bounds the wait for another server's answer.
const serverPatience = 2 * time.Second

// AskServer asks another server of the broker whether a member is subscribed there. It does nothing
// while a question about the same member is unanswered, or while maxAsking questions to the same
// server are. It calls answer only if the server answers.
func (v *controlEnv) AskServer(q membership.Question, payload []byte, answer func(membership.Asked)) {
	scout, ok := v.link.(transport.Scout)
	under := 0
	for _, server := range v.asking { //arch:order-free they are counted
		if server == q.Server {
			under++
		}
	}
	if _, asking := v.asking[q.Peer]; !ok || asking || under == maxAsking {
		return
	}
	v.asking[q.Peer] = q.Server
	v.driver.Group.Go(func() {
		ctx, cancel := context.WithTimeout(v.driver.Context, serverPatience)
		defer cancel()
		at := func(server string) bool { return message.MarkOf(server) == q.Server }
		listens, err := scout.Ask(ctx, at, q.Peer, payload)
		v.loop.Post(func() {
			delete(v.asking, q.Peer)
			if err == nil {
				answer(membership.Asked{Question: q, Listens: listens})
			}
		})
	})
}

func (v *controlEnv) ReadTable(r membership.TableRead, answer func(membership.TableRows)) {
	askTable(v, answer, func(ctx context.Context) membership.TableRows { return v.table.Read(ctx, r) })
}

// WriteTable writes a row to the membership table, or deletes rows, as r requests.
func (v *controlEnv) WriteTable(r membership.TableWrite, answer func(membership.TableWritten)) {
	askTable(v, answer, func(ctx context.Context) membership.TableWritten { return v.table.Write(ctx, r) })
}

// WriteAlive records in the membership table that this member is alive.
func (v *controlEnv) WriteAlive(r membership.TableAlive, answer func(membership.TableWritten)) {
	askTable(v, answer, func(ctx context.Context) membership.TableWritten {
		return v.table.Alive(ctx, v.driver.Local.Address, r)
	})
}

func askTable[A any](v *controlEnv, answer func(A), ask func(context.Context) A) {
	v.driver.Group.Go(func() {
		a := ask(v.driver.Context)
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

// RememberView passes the list of members to the part of the node that remembers entities.
func (v *controlEnv) RememberView(view *membership.View) { v.node.memory.ViewChanged(view) }

// Up records that the cluster has admitted the node.
func (v *controlEnv) Up() { v.node.isUp() }

// Leaving records that the node is leaving the cluster.
func (v *controlEnv) Leaving() { v.driver.Leaving.Store(true) }

// Left records that the cluster has removed the node after the node left in order.
func (v *controlEnv) Left() { v.node.left() }

func (v *controlEnv) Fail(err error) { v.node.fail(err) }

// Downed stops the node, because the other members declared it down.
func (v *controlEnv) Downed(reason string) {
	v.node.fail(fmt.Errorf("%w: %s (start the process again)", ErrDowned, reason))
}

// LeaveByOrder makes the node leave, on an operator's request.
func (v *controlEnv) LeaveByOrder() { v.node.leaveByOrder() }

// Operate carries out an operator's request outside the control loop. The request would block the
// loop too long, because it runs the user's decoders and visits many shards.
func (v *controlEnv) Operate(r *operator.Request, answer func(operator.Answer)) {
	v.driver.Group.Go(func() {
		a, err := inspections{v.node}.answer(v.driver.Context, r)
		if err != nil {
			a.Refusal = err.Error()
		}
		v.loop.Post(func() { answer(a) })
	})
}

// decisions returns a function that shows the coordinator's events to operators. The node's logger
// gets them at Debug only.
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

// leaseRetry is the pause between attempts to take a lease while the store does not answer.
const leaseRetry = 500 * time.Millisecond

// takeSplitLease tries until ctx ends to take the lease that decides a partition.
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
