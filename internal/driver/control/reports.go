package control

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// ResendEvery is the interval at which this member repeats what the coordinator may not have got: a
// report until the shard table shows its effect, and a request for homes until it is answered.
const ResendEvery = 500 * time.Millisecond

type reports struct {
	late    bool // this member has been Up for wakeAfter
	m       *Member
	done    map[placement.ShardID]placement.Epoch
	aborted aborts
	log     abortedMoves    // collects the log lines of aborted
	asks    map[string]bool // types whose calls wait for homes
	at      time.Time       // when reports are next sent again; zero means that there are none
}

type abort struct {
	epoch  placement.Epoch
	reason string
}

// aborts are the given-up moves whose end the table does not show yet, at most one for each shard.
type aborts map[placement.ShardID]abort

// add adds the report of a given-up move, and returns true. If the report comes too late, it
// returns false: a report of a later epoch is already there, or the table shows that the move has
// ended.
func (a aborts) add(id placement.ShardID, one abort, t *placement.Table) bool {
	if e, ok := t.Lookup(id); a[id].epoch > one.epoch || ok && e.Epoch > one.epoch {
		return false
	}
	a[id] = one
	return true
}

func (r *reports) init(m *Member) {
	r.m = m
	r.done = map[placement.ShardID]placement.Epoch{}
	r.aborted = aborts{}
	r.log.log = m.env.Log
	r.asks = map[string]bool{}
}

func (r *reports) wakeAt() time.Time {
	if at := r.log.at; !at.IsZero() && (r.at.IsZero() || at.Before(r.at)) {
		return at
	}
	return r.at
}

func (r *reports) plan() {
	if len(r.done)+len(r.aborted)+len(r.asks) == 0 {
		r.at = time.Time{}
	} else if r.at.IsZero() {
		r.at = r.m.env.Now().Add(ResendEvery)
	}
}

func (r *reports) resend(now time.Time) {
	r.log.tick(now)
	if !due(r.at, now) {
		return
	}
	r.at = time.Time{}
	for _, id := range sortedShards(r.done) {
		r.sendDone(id)
	}
	for _, id := range sortedShards(r.aborted) {
		r.sendAborted(id)
	}
	for _, kind := range slices.Sorted(maps.Keys(r.asks)) {
		if r.m.env.Waiting(kind) == 0 && !r.m.gateway.wants(kind) && !r.missesHomes(kind) {
			delete(r.asks, kind)
			continue
		}
		r.sendAsk(kind)
	}
	r.plan()
}

func sortedShards[V any](m map[placement.ShardID]V) []placement.ShardID {
	return slices.SortedFunc(maps.Keys(m), func(a, b placement.ShardID) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Shard, b.Shard))
	})
}

func (r *reports) sendDone(id placement.ShardID) {
	r.m.ToCoordinator(coordinator.MoveDone{Term: r.m.follower.core.Term(), ShardID: id, Epoch: r.done[id]})
}

func (r *reports) sendAborted(id placement.ShardID) {
	a := r.aborted[id]
	r.m.ToCoordinator(coordinator.MoveAborted{Term: r.m.follower.core.Term(), ShardID: id, Epoch: a.epoch, Reason: a.reason})
}

func (r *reports) sendAsk(kind string) {
	r.asks[kind] = true
	r.m.ToCoordinator(coordinator.Ask{Type: kind, Have: r.m.follower.core.Table().Version()})
}

func (r *reports) ask(kind string) {
	if !r.asks[kind] {
		r.sendAsk(kind)
		r.plan()
	}
}

// wakeAfter is how long a member waits after its admission before it asks for homes of durable
// types that nobody calls. So the shards of these types are spread from the beginning over all
// members that start within this time.
const wakeAfter = 5 * time.Second

// missesHomes reports whether a type needs homes even without calls and has none: they were not
// assigned yet, or the coordinator that knew them is gone.
func (r *reports) missesHomes(kind string) bool {
	return r.m.follower.table.Type(kind) == nil && slices.Contains(r.m.env.Unasked(r.late), kind)
}

// askForHomes asks for homes for types that need them without a call.
func (r *reports) askForHomes() {
	for _, kind := range r.m.env.Unasked(r.late) {
		if r.missesHomes(kind) {
			r.m.Ask(kind)
		}
	}
}

func (r *reports) opened(id placement.ShardID, epoch placement.Epoch) {
	if e, ok := r.m.follower.core.Table().Lookup(id); !ok || e.Epoch < epoch {
		r.done[id] = epoch
		r.sendDone(id)
		r.plan()
	}
}

func (r *reports) abort(id placement.ShardID, epoch placement.Epoch, reason string) {
	s := r.m.env.Shard(id)
	if s == nil || !s.CancelMove(epoch) {
		return
	}
	if !r.aborted.add(id, abort{epoch, reason}, r.m.follower.core.Table()) {
		return
	}
	r.log.add(id, epoch, reason, r.m.env.Now())
	r.sendAborted(id)
	r.plan()
}

func (r *reports) tableChanged(t *placement.Table) {
	maps.DeleteFunc(r.done, func(id placement.ShardID, epoch placement.Epoch) bool {
		e, ok := t.Lookup(id)
		return ok && e.Epoch >= epoch
	})
	maps.DeleteFunc(r.aborted, func(id placement.ShardID, a abort) bool {
		e, ok := t.Lookup(id)
		return ok && e.Epoch > a.epoch
	})
	maps.DeleteFunc(r.asks, func(kind string, _ bool) bool {
		return r.m.env.Waiting(kind) == 0 && !r.missesHomes(kind)
	})
	r.plan()
}

const (
	abortedEvery = time.Second
	maxAborted   = 16
)

// An abortedMoves logs given-up moves together, because nodes that leave together give up many
// moves for one reason.
type abortedMoves struct {
	log func(l Level, text string, args ...any)
	all map[abortCause]*abortedShards
	at  time.Time // when to log; zero means that there is nothing to log
}

type abortCause struct{ kind, reason string }

type abortedShards struct {
	shards int
	first  placement.ShardID
	epoch  placement.Epoch
}

func (s *abortedMoves) add(id placement.ShardID, epoch placement.Epoch, reason string, now time.Time) {
	s.log(Debug, "shard stays: its move was given up", "shard", id.String(), "epoch", epoch.String(), "reason", bounded.Text(reason))
	why := abortCause{id.Kind, bounded.Text(reason)}
	if s.all[why] == nil && len(s.all) == maxAborted {
		s.flush()
	}
	if len(s.all) == 0 {
		s.all, s.at = map[abortCause]*abortedShards{}, now.Add(abortedEvery)
	}
	if s.all[why] == nil {
		s.all[why] = &abortedShards{first: id, epoch: epoch}
	}
	s.all[why].shards++
}

func (s *abortedMoves) tick(now time.Time) {
	if due(s.at, now) {
		s.flush()
	}
}

func (s *abortedMoves) flush() {
	order := slices.SortedFunc(maps.Keys(s.all), func(a, b abortCause) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.reason, b.reason))
	})
	for _, why := range order {
		one := s.all[why]
		s.log(Info, "shards stay: their moves were given up", "kind", why.kind, "shards", one.shards,
			"first", one.first.String(), "epoch", one.epoch.String(), "reason", why.reason)
	}
	s.all, s.at = nil, time.Time{}
}
