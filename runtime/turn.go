package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/region"
)

// maxInline is how deep local calls run on one goroutine before they queue.
const maxInline = 16

// turn is one turn of an entity, and the context that its method sees: deadline
// and cancellation of the call, and none of the caller's values, so that a method
// behaves alike for near and far callers.
type turn struct {
	parent context.Context // a local caller's; nil for remote
	shard  *hostedShard
	entity *region.Entity
	method string      // of a remote turn only when it failed
	up     *turn       // the turn that made this call; nil at the chain's start
	remote *remoteTurn // nil for a local call
	depth  int32       // turns on this goroutine below this one
	ended  atomic.Bool
	after  atomic.Int32 // what the entity asked for its end
	failed error        // what the supervisor decides about
}

// remoteTurn is what a turn for an encoded call has more.
type remoteTurn struct {
	deadline time.Time
	chain    []byte // encoded turns that wait for this one
	lane     *laneRun

	mu     sync.Mutex
	ctx    context.Context // made when somebody asks
	cancel context.CancelFunc
	gaveUp bool
}

// turnKey finds the turn in a context derived from it.
type turnKey struct{}

// turnOf is the turn that ctx belongs to, or nil.
func turnOf(ctx context.Context) *turn {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil || t.ended.Load() {
		return nil // a context that outlived its turn is nobody's
	}
	return t
}

// Deadline is the call's.
func (t *turn) Deadline() (time.Time, bool) {
	if t.remote != nil {
		return t.remote.deadline, !t.remote.deadline.IsZero()
	}
	return t.parent.Deadline()
}

// Done is closed when the caller gives up or the deadline passes.
func (t *turn) Done() <-chan struct{} {
	if t.remote != nil {
		return t.remote.context(t.shard.plane().ctx).Done()
	}
	return t.parent.Done()
}

// Err tells why Done is closed.
func (t *turn) Err() error {
	if t.remote != nil {
		return t.remote.context(t.shard.plane().ctx).Err()
	}
	return t.parent.Err()
}

// Value knows the turn itself and nothing of the caller.
func (t *turn) Value(key any) any {
	if key == (turnKey{}) {
		return t
	}
	return nil
}

// context is made when somebody asks; it ends with the node, too.
func (r *remoteTurn) context(parent context.Context) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		if r.deadline.IsZero() {
			r.ctx, r.cancel = context.WithCancel(parent)
		} else {
			r.ctx, r.cancel = context.WithDeadline(parent, r.deadline)
		}
		if r.gaveUp {
			r.cancel()
		}
	}
	return r.ctx
}

// giveUp cancels the method's context.
func (r *remoteTurn) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaveUp = true
	if r.cancel != nil {
		r.cancel()
	}
}

// yieldLane lets the lane that this turn runs on go on without it, before the
// turn waits for something.
func (t *turn) yieldLane() {
	for ; t != nil; t = t.up {
		if t.remote != nil {
			t.remote.lane.handOver()
			return
		}
	}
}

// appendChain appends the encoded turns that wait for a call made in t,
// outermost first.
func (t *turn) appendChain(b []byte) []byte {
	if t == nil {
		return b
	}
	if t.remote != nil {
		b = append(b, t.remote.chain...)
	} else {
		b = t.up.appendChain(b)
	}
	id := t.shard.id
	return wire.AppendLink(b, id.Kind, t.entity.ID, id.Shard)
}

// chain is the encoded turns that wait for a call; it parses them when a call
// meets a busy entity or a closed shard, which is rare.
type chain []byte

// HoldsShard tells whether a turn in that shard waits for the call.
func (c chain) HoldsShard(s placement.ShardID) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Shard == s.Shard })
}

// HoldsEntity tells whether that entity's turn waits for the call.
func (c chain) HoldsEntity(s placement.ShardID, entity string) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Entity == entity })
}

func (c chain) any(match func(wire.Link) bool) bool {
	links, err := wire.ParseChain(c)
	if err != nil {
		return false
	}
	for _, l := range links {
		if match(l) {
			return true
		}
	}
	return false
}

// String prints the chain as people read it: "Cart/7 → Stock/tea → ".
func (c chain) String() string {
	links, _ := wire.ParseChain(c)
	var s string
	for _, l := range links {
		s += l.Kind + "/" + clip(l.Entity) + " → "
	}
	return s
}
