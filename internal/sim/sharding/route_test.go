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

// A route is a shard as a process's callers see it: the code that ships, over the process's
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

// An ask is a call whose answer somebody waits for: the caller of a place in the process's
// pending calls, for one call after another.
type ask struct {
	process *process
	place   *calls.Call // nil between two calls
	id      uint64
	done    func(calls.Result)
}

// await enters a call that ends at that time, and returns its number.
func (p *process) await(over time.Time, done func(c *calls.Call, r calls.Result)) uint64 {
	place, id := p.pending.Open(int64(over.Sub(epochStart)), 0)
	c := place.Caller.(*ask)
	c.place, c.id = place, id
	c.done = func(r calls.Result) { done(place, r) }
	p.after(over.Sub(p.w.now), func() { p.pending.Sweep(int64(p.w.now.Sub(epochStart))) })
	return id
}

// Wake has the caller go on, soon.
func (c *ask) Wake() {
	c.process.after(0, func() {
		p, place, done := c.process, c.place, c.done
		c.place, c.done = nil, nil
		done(p.pending.End(place, 0))
	})
}

// label names a call in the trace.
func label(e *wire.Envelope) string {
	what := "tell"
	if e.Type == wire.TypeCall {
		what = "call"
	}
	return fmt.Sprintf("%s %s", what, e.Payload)
}

// local is the shard at this process, if calls go straight there; else nil.
func (r *route) local() *hosted {
	if t := r.Target(); t != nil && t.Local != nil {
		return t.Local.(*hosted)
	}
	return nil
}

// pass passes a call or a tell to the route. One for which there is no room is refused.
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

// Admit makes room for a call where buffers are not small.
func (r *route) Admit(int, bool) error {
	p := r.process
	if p.w.plan.small && p.held() >= maxHeld {
		return routing.ErrCalls
	}
	p.holding++
	return nil
}

// Held asks for a home. No route is bounded by itself.
func (r *route) Held([]stream.Outgoing) { r.process.ask(r.id.Kind) }

var errRefused = errors.New("its own shard refused a call")

// Retry fails: with one thread a target is where calls go.
func (r *route) Retry(int) error {
	r.process.w.fail("%s: %v", r.process.name, errRefused)
	return errRefused
}

// maxHeld bounds the calls that wait for homes where buffers are small.
const maxHeld = 12

func (p *process) ask(kind string) {
	if p.host {
		p.onLoop(func(c *member) { c.Ask(kind) })
	} else {
		p.after(0, func() { p.client.do(func() { p.client.Ask(kind) }) })
	}
}

// onLoop does something on the control loop of a host, soon.
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

// Known is the link to a process that this one has dealt with.
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
	l, _ := to.(calls.Carrier) // nil: nowhere any more
	r.process.pending.Sent(id, l, seq)
}

func (r *route) Expired() {}

// Unsent ends a call that could not be appended.
func (r *route) Unsent(e *wire.Envelope, err error) {
	r.process.w.oracle.lose(e, "not appended: %v", err)
	r.process.pending.Complete(e.ID, calls.Result{Code: wire.CodeMoved})
}

// Taken and Released count what the route holds.
func (r *route) Taken(out []stream.Outgoing) { r.process.holding += len(out) }

// Released is the opposite of Taken.
func (r *route) Released(out []stream.Outgoing) { r.process.holding -= len(out) }
