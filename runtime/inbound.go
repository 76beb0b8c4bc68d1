package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/runtoken"
	"github.com/shardgen/shardgen/internal/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// inCall is a call as the hosting side holds it: from another process, from this
// one through its queues, or a local caller that waits for its turn. One whose
// turn has ended and was answered is used again: by its lane (keep), its runner
// (toldCalls.keep) or anybody (recycle). Until then others may find it through its
// entity, so whoever answers first sees to it that the shard has let go of it (End,
// or Kept).
type inCall struct {
	shardhost.Call
	ownsArgs bool // Args is one of codegen.NewArgs
	told     bool // enqueueTold's, which its runner keeps
	lane     int
	from     *peers.Session              // the session that it came on; nil for this process's own
	encoded  atomic.Pointer[encodedTurn] // nil until its turn begins
	run      runtoken.Hold               // the turn's hold on its lane or runner; zero: it has none
	began    int64                       // when its turn did, in nanoseconds after the plane's base

	// caller is the context of a local caller whose goroutine runs the turn of a durable
	// entity; else nil.
	caller context.Context
	// granted is a waiting local caller's: it gets its turn, or nil to look for the home anew.
	granted chan *region.Entity
}

// newTurn is the call's turn, which has begun.
func (c *inCall) newTurn(e *region.Entity) (r *encodedTurn) {
	if hostedOf(e).durable != nil {
		d := &durableTurn{remoteTurn: remoteTurn{deadline: c.Deadline, chain: c.Links}, caller: c.caller}
		r = &d.encodedTurn
		r.turn.parent = d
		if c.caller != nil {
			if up := turnOf(c.caller); up != nil {
				r.turn.depth = up.depth + 1
			}
		}
	} else if c.Tell {
		r = new(encodedTurn)
		r.turn.parent = r
	} else {
		whole := &remoteTurn{deadline: c.Deadline, chain: c.Links}
		r = &whole.encodedTurn
		r.turn.parent = whole
	}
	r.turn.entity, r.run = e, c.run
	c.encoded.Store(r)
	return r
}

// turn is the result of newTurn.
func (c *inCall) turn() *turn { return &c.encoded.Load().turn }

// failed is the failure that its supervisor decides about; nil: none.
func (c *inCall) failed() *failure { return c.encoded.Load().failed }

var inCalls = sync.Pool{New: func() any { return new(inCall) }}

// recycle gives the call back for reuse: its turn has ended, and nobody knows of
// it any more.
func (c *inCall) recycle() {
	if c.told {
		return // its runner keeps it, or the garbage collector has it
	}
	if c.ownsArgs {
		codegen.Recycle(c.Args)
	}
	*c = inCall{}
	inCalls.Put(c)
}

// empty makes a tell ready to be filled again, with its buffer unless that is large.
func (c *inCall) empty() {
	args := c.Args[:0]
	if cap(args) > maxSpareArgs {
		args = nil
	}
	*c = inCall{}
	c.Args = args
}

// newInCall makes a call of an envelope that came at a time.
func (pl *plane) newInCall(from transport.Peer, e *wire.Envelope, lane int, at time.Time) *inCall {
	c := inCalls.Get().(*inCall)
	c.fill(pl, from, e, lane, at)
	return c
}

// fill makes an empty c that call. Its byte slices stay those of the frame, which
// belongs to this process.
func (c *inCall) fill(pl *plane, from transport.Peer, e *wire.Envelope, lane int, at time.Time) {
	c.Fill(from, e, int64(at.Sub(pl.lease.Base())))
	c.Driver, c.lane = c, lane
}

func inbound(c *region.Call) *inCall { return c.Driver.(*inCall) }

// reply hands an answer of this process to its caller.
func (pl *plane) reply(e *wire.Envelope) {
	if c := pl.answered(e); c != nil {
		pl.pending.Coalescer.Wake(1)
		c.Caller.Wake()
	}
}

// answered takes the call out of the table that an answer is for; nil if nobody
// waits for it. The caller must wake the goroutine that does.
func (pl *plane) answered(e *wire.Envelope) *pending.Call {
	if e.Code == wire.CodeMoved && e.Epoch != 0 {
		pl.learn(e)
	}
	c := pl.pending.Remove(e.ID)
	if c == nil {
		pl.counters.add(replyUnclaimed)
		return nil
	}
	c.Answer(pending.Result{Payload: e.Payload, Code: e.Code, Text: string(e.Text)})
	return c
}

// refusal takes back an envelope that the peer did not execute.
func (pl *plane) refusal(from *peers.Session, e *wire.Envelope) {
	if e.Code != wire.CodeMoved {
		if e.ID == 0 || !pl.pending.Complete(e.ID, pending.Result{Code: e.Code, Text: string(e.Text)}) {
			pl.tellRefused(from, e)
		}
		return
	}
	env, ok := from.Find(e.Seq)
	if !ok {
		pl.counters.add(frameIgnored)
		return
	}
	if r := pl.routeFor(&env); r != nil {
		pl.counters.add(callRetried)
		r.Refused(from.Peer().Address, env, e.Node.Address, placement.Epoch(e.Epoch))
	}
}

// tellRefused counts a tell that the peer did not run, and says so seldom, for there may
// be very many.
func (pl *plane) tellRefused(from *peers.Session, e *wire.Envelope) {
	pl.lost.unsent.Add(1)
	n, tell := pl.counters.addSeldom(tellLost)
	if !tell || e.Code == wire.CodeDropped { // which is as its type's handoff wants it
		return
	}
	env, _ := from.Find(e.Seq) // the envelope, if it is still known
	pl.log.Warn("tell refused", "by", from.Peer().Address, "kind", clip(string(e.Kind)), "entity", clip(string(env.Entity)),
		"method", clip(string(env.Method)), "code", int(e.Code), "why", bounded.Text(string(e.Text)), "lost so far", n)
}

// learn takes a placement from an answer.
func (pl *plane) learn(e *wire.Envelope) {
	if k := (*pl.kinds.Load())[string(e.Kind)]; k != nil {
		if r := k.route(e.Shard); r != nil {
			r.Learn(e.Node.Address, placement.Epoch(e.Epoch), false)
		}
	}
}

// cancelCall passes a caller's giving up on to its call.
func (pl *plane) cancelCall(from transport.Peer, e *wire.Envelope) {
	k := (*pl.kinds.Load())[string(e.Kind)]
	if k == nil || k.host == nil {
		return
	}
	if sh := k.host.shard(e.Shard); sh != nil {
		sh.Cancel(from.Address, string(e.Entity), e.ID)
	}
}

// moveStep handles the envelopes of a shard's move.
func (pl *plane) moveStep(from *peers.Session, e *wire.Envelope) {
	k := (*pl.kinds.Load())[string(e.Kind)]
	if e.Type == 0 {
		return // a call that was taken back
	}
	if k == nil || k.host == nil || k.host.shard(e.Shard) == nil {
		if e.Type == wire.TypeInit {
			from.Post(&wire.Envelope{
				Type: wire.TypeReject, Kind: e.Kind, Shard: e.Shard, Epoch: e.Epoch,
				Text: []byte(pl.self.Name + " does not host the type"),
			})
		}
		pl.counters.add(frameIgnored)
		return
	}
	sh := k.host.shard(e.Shard)
	var opens func(transport.Address, placement.Epoch)
	if in := k.host.instance; in != nil {
		opens = in.PredecessorOpened // its manager has the last word
	}
	if !sh.Step(from, e, opens) {
		pl.counters.add(frameIgnored)
	}
}
