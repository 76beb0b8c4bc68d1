package shard

import (
	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/pending"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// shrinkLocked makes waiting envelopes fit the broker's lowered limit, and answers those
// that do not fit. It reports false where that helps nothing: the payload fits again, or
// not even small messages would.
func (p *peerSession) shrinkLocked(token uint64, size int) bool {
	limit := p.plane.link().MaxPayload()
	if token == 0 || size <= limit {
		return false
	}
	if limit < minPayload {
		if n, tell := p.plane.counters.addSeldom(limitTooLow); tell {
			p.plane.log.Error("the broker takes too little: raise its max_payload", "max_payload", limit, "least", minPayload, "count", n)
		}
		return false
	}
	over := p.Core.Shrink(token, limit)
	for i := range over {
		p.oversize(&over[i])
	}
	return true
}

// oversize answers an envelope that exceeds the broker's lowered limit. mu is held.
func (p *peerSession) oversize(o *call.Oversize) {
	pl, e := p.plane, &o.Envelope
	switch e.Type {
	case wire.TypeCall:
		if !e.Node.IsZero() && e.Node.Address != pl.self.Address {
			p.refuseForwarded(o)
			return
		}
		code := wire.CodeUnsendable
		if !o.NotExecuted {
			code = codeUnrepeatable
		}
		pl.pending.Complete(e.ID, pending.Result{Code: code, Text: o.Error()})
	case wire.TypeTell:
		if n, tell := pl.counters.addSeldom(tellLost); tell {
			pl.log.Warn("tell lost: the broker takes less than it did", "to", p.Peer().Address, "kind", string(e.Kind),
				"entity", clip(string(e.Entity)), "method", clip(string(e.Method)), "err", o, "lost so far", n)
		}
	case wire.TypeInit:
		id := placement.ShardID{Kind: string(e.Kind), Shard: e.Shard}
		pl.ctl.moveAborted(id, placement.Epoch(e.Epoch), "send the state to "+p.Peer().Address.String()+": "+o.Error())
	}
}

// refuseForwarded answers the sender of a call that this node has passed on. Of one that
// may have arrived nobody knows: its sender waits until its deadline.
func (p *peerSession) refuseForwarded(o *call.Oversize) {
	if !o.NotExecuted {
		return
	}
	pl, to, lane := p.plane, o.Envelope.Node, int(p.ch)
	answer := &wire.Envelope{Type: wire.TypeReply, ID: o.Envelope.ID, Code: wire.CodeUnsendable, Text: []byte(o.Error())}
	pl.wg.Go(func() { // not below the lock of this session
		if way := pl.session(to, lane); way != nil {
			way.post(answer)
		}
	})
}

// tooLarge is the answer in place of results that exceed the broker's lowered limit.
func tooLarge(reply *wire.Envelope, err error) *wire.Envelope {
	code := reply.Code
	if code == wire.CodeOK {
		code = wire.CodeTooLarge
	}
	return &wire.Envelope{Type: wire.TypeReply, ID: reply.ID, Code: code, Text: []byte(err.Error())}
}
