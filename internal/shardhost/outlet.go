package shardhost

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Config has the settings shared by the shards of one kind at a process.
type Config struct {
	Kind []byte // its name on the wire
	Self transport.Address
	// CallTimeout bounds how long calls wait for the shard to open.
	CallTimeout time.Duration
	// HandoffTimeout bounds each step of a move that may wait for others.
	HandoffTimeout time.Duration
	// Drops: shards move without their state.
	Drops bool
	// Settles: a table names the shard's home, so that it need not be known here forever.
	Settles bool
	Watch   Watch // nil: nobody watches
	// Clock is the coarse clock that region.Shard takes as now.
	Clock *atomic.Uint32
	// Keeps reports whether the host keeps the turn that ends; nil means it keeps none. It is called
	// with Mu held.
	Keeps func(*region.Entity) bool
}

// An outlet is how a shard reaches its process: its callers, and its peers in a move. It
// keeps no state.
type outlet struct {
	ID   placement.ShardID
	host Host
	cfg  *Config
}

// start runs a turn that has begun for a call that waited.
func (o *outlet) start(st region.Start) {
	if c := of(st.Call); c.Local {
		o.host.Grant(c, st.Entity)
	} else {
		o.host.Run(st.Entity, c)
	}
}

// post appends an envelope that is not a call, to be flushed later. It reports false when
// there is no session with the peer. Envelopes that cannot be appended are counted.
func (o *outlet) post(to transport.Peer, e *wire.Envelope) (Session, bool) {
	p, ok := o.host.Session(to)
	if ok {
		o.postTo(p, e)
	}
	return p, ok
}

// postTo is post to a session.
func (o *outlet) postTo(p Session, e *wire.Envelope) {
	if _, err := p.Append(e); err != nil {
		o.host.Count(NoPeer)
	}
}

// envelope is a step of a move.
func (o *outlet) envelope(t wire.Type, epoch placement.Epoch) *wire.Envelope {
	return &wire.Envelope{Type: t, Kind: o.cfg.Kind, Shard: o.ID.Shard, Epoch: uint64(epoch)}
}

// answer ends a call that was accepted and did not run.
func (o *outlet) answer(c *Call, code wire.Code, text string) {
	o.countRefused(code)
	if c.Tell {
		o.host.LoseTell(c)
		return
	}
	o.host.Answer(c, &wire.Envelope{Type: wire.TypeAnswer, ID: c.ID, Code: code, Text: []byte(text)})
}

// countRefused counts a call that was accepted and did not run.
func (o *outlet) countRefused(code wire.Code) {
	o.host.Count(CallRefused)
	if o.cfg.Watch != nil {
		o.cfg.Watch.Refused(code)
	}
}

// refuse answers a call that was accepted that the shard is elsewhere.
func (o *outlet) refuse(c *Call, epoch placement.Epoch, home transport.Address) {
	if c.Local {
		o.host.Grant(c, nil)
		return
	}
	o.countRefused(wire.CodeMoved)
	if c.Tell {
		o.host.LoseTell(c)
		return
	}
	o.host.Answer(c, &wire.Envelope{
		Type: wire.TypeAnswer, ID: c.ID, Code: wire.CodeMoved, Kind: o.cfg.Kind, Shard: o.ID.Shard,
		Epoch: uint64(epoch), Node: transport.Peer{Address: home},
	})
}

// drop answers that a call was accepted and cannot run here any more.
func (o *outlet) drop(c *Call) {
	if c.Local {
		o.host.Grant(c, nil)
		return
	}
	o.host.Count(CallDropped)
	o.answer(c, wire.CodeDropped, "")
}
