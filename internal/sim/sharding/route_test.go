package sharding

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/routing"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A route is a shard as seen by a process's callers. It is the production code, on the process's
// links.
type route struct {
	routing.Route
	process *process
	id      placement.ShardID
}

var _ routing.Env = (*route)(nil)

func newRoute(p *process, id placement.ShardID) *route {
	r := &route{process: p, id: id}
	r.Init(r, []byte(id.Kind), id.Shard)
	if id.Kind == poolName {
		r.OnTaken(func() { p.stranded(id) })
	}
	return r
}

// An ask is the caller of a place in the process's pending calls. It waits for the answers of one
// call after another.
type ask struct {
	process *process
	place   *calls.Call // nil between two calls
	id      uint64
	done    func(calls.Result)
}

// await adds a waiting call that ends at the time over. It returns the call's number.
func (p *process) await(over time.Time, done func(c *calls.Call, r calls.Result)) uint64 {
	place, id := p.pending.Open(int64(over.Sub(epochStart)), 0)
	c := place.Caller.(*ask)
	c.place, c.id = place, id
	c.done = func(r calls.Result) { done(place, r) }
	p.after(over.Sub(p.w.now), func() { p.pending.Sweep(int64(p.w.now.Sub(epochStart))) })
	return id
}

// Wake lets the caller go on, soon.
func (c *ask) Wake() {
	c.process.after(0, func() {
		p, place, done := c.process, c.place, c.done
		c.place, c.done = nil, nil
		done(p.pending.End(place, 0))
	})
}

// label returns a call's name in the trace.
func label(e *wire.Envelope) string {
	what := "tell"
	if e.Type == wire.TypeCall {
		what = "call"
	}
	return fmt.Sprintf("%s %s", what, e.Payload)
}

// local returns the shard at this process if calls go straight to it, otherwise nil.
func (r *route) local() *hosted {
	if t := r.Target(); t != nil && t.Local != nil {
		return t.Local.(*hosted)
	}
	return nil
}

// pass passes a call or a tell to the route. A call or tell for which there is no room is refused.
func (r *route) pass(e *wire.Envelope) {
	p := r.process
	p.w.log("%s: %s for %v, which is %v to %s at %v", p.name, label(e), r.id, r.Core.State, r.Core.Home.Name, r.Core.Epoch)
	err := r.Send(e, routing.Carrier{
		Here: func(t *routing.Target) (bool, error) {
			return t.Local.(*hosted).accept(e, func() bool { return r.Target() == t }), nil
		},
		AppendLocked:  func(s routing.Session) (uint64, error) { return s.AppendLocked(e) },
		PublishUnlock: func(s routing.Session) { s.Unlock(); s.Flush() },
	})
	if err != nil && !p.pending.Complete(e.ID, calls.Result{Code: wire.CodeOverloaded}) {
		p.w.oracle.refusedTells++
	}
}

// Admit accepts a call unless buffers are small.
func (r *route) Admit(int, bool) error {
	p := r.process
	if p.w.plan.small && p.held() >= maxHeld {
		return routing.ErrCalls
	}
	p.holding++
	return nil
}

// Held asks for the home. A route has no bound of its own.
func (r *route) Held([]stream.Outgoing) { r.process.ask(r.id.Kind) }

var errRefused = errors.New("its own shard refused a call")

// Retry fails the run: with one thread, the target of a call cannot change during the call.
func (r *route) Retry(int) error {
	r.process.w.fail("%s: %v", r.process.name, errRefused)
	return errRefused
}

// maxHeld bounds the calls that wait for homes, in plans with small buffers.
const maxHeld = 12

func (p *process) ask(kind string) {
	if p.host {
		p.onLoop(func(c *member) { c.Ask(kind) })
	} else {
		p.after(0, func() { p.client.do(func() { p.client.Ask(kind) }) })
	}
}

// onLoop calls f on the control loop of a host, soon.
func (p *process) onLoop(f func(*member)) {
	p.after(0, func() { p.control.do(func() { f(p.control) }) })
}

func keep(e *wire.Envelope) wire.Envelope {
	c := *e
	c.Entity, c.Payload, c.Chain = slices.Clone(e.Entity), slices.Clone(e.Payload), slices.Clone(e.Chain)
	c.Kind, c.Method, c.Command = slices.Clone(e.Kind), slices.Clone(e.Method), slices.Clone(e.Command)
	return c
}

func (r *route) Self() transport.Peer { return r.process.self }

func (r *route) Session(a transport.Address) (routing.Session, bool) {
	l := r.process.link(a)
	return l, l != nil
}

// Known returns the link to a process with which this one has exchanged messages.
func (r *route) Known(a transport.Address) (routing.Session, bool) {
	l := r.process.links[a]
	return l, l != nil
}

func (r *route) Local() (routing.Local, bool) {
	s := r.process.shards[r.id]
	return s, s != nil
}

func (r *route) Ask() { r.process.after(0, func() { r.process.ask(r.id.Kind) }) }

func (r *route) Now() time.Time { return r.process.w.now }

func (r *route) Waits(id uint64) bool { return r.process.pending.Waits(id) }

func (r *route) Sent(id uint64, to routing.Session, seq uint64) {
	l, _ := to.(calls.Carrier) // nil means that the calls have no target any more
	r.process.pending.Sent(id, l, seq)
}

func (r *route) Expired() {}

// Unsent ends a call that could not be added to a link.
func (r *route) Unsent(e *wire.Envelope, err error) {
	r.process.w.oracle.lose(e, "not appended: %v", err)
	r.process.pending.Complete(e.ID, calls.Result{Code: wire.CodeMoved})
}

// Taken counts the calls that the route holds from now on.
func (r *route) Taken(out []stream.Outgoing) { r.process.holding += len(out) }

// Released counts the calls that the route no longer holds.
func (r *route) Released(out []stream.Outgoing) { r.process.holding -= len(out) }
