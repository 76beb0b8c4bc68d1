package shardhost

import (
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

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

// refuse answers a call that was accepted: the shard is elsewhere.
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

// drop answers a call that was accepted: it cannot run here any more.
func (o *outlet) drop(c *Call) {
	if c.Local {
		o.host.Grant(c, nil)
		return
	}
	o.host.Count(CallDropped)
	o.answer(c, wire.CodeDropped, "")
}
