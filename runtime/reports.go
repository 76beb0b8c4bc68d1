package shard

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// resendEvery is the time between two sendings of a report whose effect does not
// show in the table.
const resendEvery = 500 * time.Millisecond

// reports is what this node has to tell the coordinator about its shards, again
// and again until the table shows it. It belongs to the control loop.
type reports struct {
	control *control
	done    map[placement.ShardID]placement.Epoch
	aborted aborts
	stays   stays                // of aborted, for the log
	asks    map[string]time.Time // kinds that calls wait for: when last asked
	at      time.Time            // of the next resending; zero: nothing to tell
}

// An abort is word of a move that this node gave up.
type abort struct {
	epoch  placement.Epoch
	reason string
}

// aborts are those of which the table does not show the end, at most one a shard.
type aborts map[placement.ShardID]abort

// add takes one in, and reports whether it is to be told. It is not when a later one is
// waiting, or the table shows the end already: word of a former move may come late, as
// the refusal of state that was under way for long does.
func (a aborts) add(id placement.ShardID, one abort, t *placement.Table) bool {
	if e, ok := t.Lookup(id); a[id].epoch > one.epoch || ok && e.Epoch > one.epoch {
		return false
	}
	a[id] = one
	return true
}

func (r *reports) init(c *control) {
	r.control = c
	r.done = map[placement.ShardID]placement.Epoch{}
	r.aborted = aborts{}
	r.stays.log = c.node.log
	r.asks = map[string]time.Time{}
}

// wakeAt is when resend is due.
func (r *reports) wakeAt() time.Time {
	if at := r.stays.at; !at.IsZero() && (r.at.IsZero() || at.Before(r.at)) {
		return at
	}
	return r.at
}

func (r *reports) plan() {
	if len(r.done)+len(r.aborted)+len(r.asks) == 0 {
		r.at = time.Time{}
	} else if r.at.IsZero() {
		r.at = time.Now().Add(resendEvery)
	}
}

// resend tells everything again whose effect does not show.
func (r *reports) resend(now time.Time) {
	r.stays.tick(now)
	if r.at.IsZero() || now.Before(r.at) {
		return
	}
	r.at = time.Time{}
	for _, id := range sortedShards(r.done) {
		r.sendDone(id, r.done[id])
	}
	for _, id := range sortedShards(r.aborted) {
		r.sendAborted(id, r.aborted[id])
	}
	for kind := range r.asks {
		if r.control.plane.heldFor(kind) == 0 && !r.control.gateway.wants(kind) && !r.control.missesHomes(kind) {
			delete(r.asks, kind)
			continue
		}
		r.sendAsk(kind)
	}
	r.plan()
}

func sortedShards[V any](m map[placement.ShardID]V) []placement.ShardID {
	ids := make([]placement.ShardID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b placement.ShardID) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
	})
	return ids
}

func (r *reports) toCoordinator(m coordinator.Message) {
	if to := r.control.coordinatorAddress(); !to.IsZero() {
		r.control.sendPlacement(transport.Peer{Address: to}, m)
	}
}

func (r *reports) sendDone(id placement.ShardID, epoch placement.Epoch) {
	r.toCoordinator(coordinator.MoveDone{Term: r.control.follower.Term(), ShardID: id, Epoch: epoch})
}

func (r *reports) sendAborted(id placement.ShardID, a abort) {
	r.toCoordinator(coordinator.MoveAborted{Term: r.control.follower.Term(), ShardID: id, Epoch: a.epoch, Reason: a.reason})
}

func (r *reports) sendAsk(kind string) {
	r.asks[kind] = time.Now()
	r.toCoordinator(coordinator.Ask{Kind: kind, Have: r.control.follower.Table().Version()})
}

// ask asks for a home for the kind's shards, if it was not just asked.
func (r *reports) ask(kind string) {
	if _, asked := r.asks[kind]; !asked {
		r.sendAsk(kind)
		r.plan()
	}
}

// opened reports a shard that runs here, unless the table said so.
func (r *reports) opened(id placement.ShardID, epoch placement.Epoch) {
	if e, ok := r.control.follower.Table().Lookup(id); !ok || e.Epoch < epoch {
		r.done[id] = epoch
		r.sendDone(id, epoch)
		r.plan()
	}
}

// abort gives a move up that this node should have made, unless it is too late.
func (r *reports) abort(id placement.ShardID, epoch placement.Epoch, reason string) {
	sh := r.control.node.hostedShard(id)
	if sh == nil || !sh.CancelMove(epoch) {
		return
	}
	if !r.aborted.add(id, abort{epoch, reason}, r.control.follower.Table()) {
		return
	}
	r.stays.add(id, epoch, reason, time.Now())
	r.sendAborted(id, r.aborted[id])
	r.plan()
}

// tableChanged drops the reports whose effect shows.
func (r *reports) tableChanged(t *placement.Table) {
	for id, epoch := range r.done {
		if e, ok := t.Lookup(id); ok && e.Epoch >= epoch {
			delete(r.done, id)
		}
	}
	for id, a := range r.aborted {
		if e, ok := t.Lookup(id); ok && e.Epoch > a.epoch {
			delete(r.aborted, id)
		}
	}
	for kind := range r.asks {
		if r.control.plane.heldFor(kind) == 0 && !r.control.missesHomes(kind) {
			delete(r.asks, kind)
		}
	}
	r.plan()
}

// order obeys the coordinator's word about one shard.
func (r *reports) order(m coordinator.Message) {
	c := r.control
	switch m := m.(type) {
	case coordinator.NoHome:
		c.setWhy(m.Kind, m.Reason)
		c.gateway.noHome(m)
	case coordinator.PlaceDone:
		c.inquiries.answered(m.ID, c.self, m)
	case coordinator.Explained:
		c.inquiries.answered(m.ID, c.self, m)
	case coordinator.MoveBegin:
		r.obey(m.ShardID, m)
	case coordinator.MoveCancel:
		if !r.obey(m.ShardID, m) {
			r.toCoordinator(coordinator.MoveCancelled(m))
		}
	}
}

// obey brings an order to its shard, and the shard's answer to the coordinator. It reports
// false when this node has no such shard.
func (r *reports) obey(id placement.ShardID, m coordinator.Message) bool {
	sh := r.control.node.hostedShard(id)
	if sh == nil {
		return false
	}
	if answer := sh.Obey(m, r.control.follower.Term()); answer != nil {
		r.toCoordinator(answer)
	}
	return true
}

// What the data plane leaves word of; each only posts.

func (c *control) ask(kind string) {
	c.loop.Post(func() {
		if c.started {
			c.askHome(kind)
		}
	})
}

// missesHomes reports whether the kind's entities may have to be activated again, and its
// shards have no homes: there was none yet, or the last one died with the
// coordinator that knew.
func (c *control) missesHomes(kind string) bool {
	k := (*c.plane.kinds.Load())[kind]
	return k != nil && k.host != nil && k.host.remembered != nil && c.plane.table.Load().Kind(kind) == nil
}

// askForRemembered asks for homes that nobody's call may ever ask for.
func (c *control) askForRemembered() {
	for _, h := range c.node.hosted() {
		if c.missesHomes(h.desc.Name) {
			c.askHome(h.desc.Name)
		}
	}
}

// askHome looks for a home of the kind's shards, or for a singleton's instance.
func (c *control) askHome(kind string) {
	if !c.singles.Want(kind) {
		c.reports.ask(kind)
	}
}

func (c *control) moveDone(id placement.ShardID, epoch placement.Epoch) {
	c.loop.Post(func() {
		if c.singles.Opened(id.Kind, epoch) {
			return
		}
		c.reports.opened(id, epoch)
		c.progressed()
	})
}

func (c *control) moveAborted(id placement.ShardID, epoch placement.Epoch, reason string) {
	c.loop.Post(func() {
		if !c.singles.Refused(id.Kind, reason) {
			c.reports.abort(id, epoch, reason)
		}
	})
}

func (c *control) progress(id placement.ShardID) {
	c.loop.Post(func() {
		c.progressed()
		if sh := c.node.hostedShard(id); sh != nil {
			if _, ok := sh.Owned(); ok {
				c.checkExit()
			}
		}
	})
}

// progressed registers anew while a new coordinator still goes by registrations.
func (c *control) progressed() {
	if c.follower.Unsettled() && c.follower.Term() != (placement.Term{}) {
		c.follower.Changed()
		c.stepFollower(transport.Address{}, nil)
	}
}

func (c *control) suspect(a transport.Address, server string) {
	c.suspectMu.Lock()
	now := time.Now()
	recent := now.Sub(c.suspects[a]) < 100*time.Millisecond
	if !recent {
		c.suspects[a] = now
	}
	if len(c.suspects) > 1024 {
		clear(c.suspects)
	}
	c.suspectMu.Unlock()
	if !recent {
		c.loop.Post(func() { c.bounced(a, server) })
	}
}

func (c *control) escalate(err error) { c.loop.Post(func() { c.node.fail(err) }) }

func (c *control) shardsOf(kind string) uint32 { return c.plane.table.Load().Kind(kind).Shards() }

// why no home is known for the kind, as it was last said.
func (c *control) why(kind string, now time.Time) string { return c.reasons.said(kind, now) }

func (c *control) setWhy(kind, reason string) { c.reasons.note(kind, reason, time.Now()) }
