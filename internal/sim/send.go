package sim

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/message"

	"github.com/shardgen/shardgen/runtime/membership"
)

// maxRepeated bounds how many messages a connection can send again.
const maxRepeated = 8

type repeated struct {
	envelope membership.Envelope
	at       time.Duration
}

type network struct{ *World }

// up returns when a message sent now reaches the node's server. Messages of a connection keep
// their order.
func (w network) up(n *Node) time.Duration {
	at := w.now + w.config.Latency
	if w.config.Jitter > 0 {
		at += time.Duration(w.random.Int64N(int64(w.config.Jitter)))
	}
	n.lastUp = max(n.lastUp, at, n.server.still)
	return n.lastUp
}

func (w network) across(from, to *Server) time.Duration {
	if from == to {
		return w.config.Latency
	}
	return w.config.Between + w.config.Latency
}

func (w network) send(n *Node, e *membership.Envelope) {
	if !n.connected {
		return
	}
	if w.config.Repeat > 0 {
		n.sent = append(n.sent, repeated{*e, w.now})
		n.sent = n.sent[max(0, len(n.sent)-maxRepeated):]
	}
	msg := e.Message
	if w.config.Recode {
		msg = w.recode(msg)
	}
	if s, ok := msg.(message.Snapshot); ok && w.config.Unchecked && s.Base != 0 {
		s.Table.ApplyAlike()
	}
	size := int32(0)
	if w.config.Account {
		size = w.sizes.of(n, e.Message)
		n.traffic.count(msg, size, true)
	}
	if n.lossOut > 0 && w.random.Float64() < n.lossOut {
		return
	}
	if !n.registered {
		return // the server has closed this connection
	}
	hub := w.up(n)
	post := func(at time.Duration, kind eventKind) *event {
		d := w.queue.put(at, kind)
		d.from, d.sender, d.msg, d.hub, d.size, d.server = n, n.conn, msg, hub, size, n.server
		return d
	}
	if e.Broadcast {
		for _, s := range w.servers {
			post(hub+w.across(n.server, s), eventFan).target = s
		}
		return
	}
	to := w.byName[e.To]
	if to == nil {
		broker(w).input(n, hub+w.config.Latency, membership.Unreachable{Peer: e.To, Server: n.server.id})
		return
	}
	d := post(hub+w.across(n.server, to.server), eventUnicast)
	d.to, d.receiver = to, to.conn
}

func sentThrough(e *event) bool {
	return e.from.registered && e.from.conn == e.sender || e.from.closedAt >= e.hub
}

func (w network) arrive(e *event) {
	if !sentThrough(e) {
		return
	}
	n := e.to
	if !n.known[e.server.index] {
		if e.from.conn == e.sender && e.from.connected && !w.lost(e.from) {
			e.from.step(w.World, membership.Unreachable{Peer: n.Address, Server: e.server.id})
		}
		return
	}
	if e.receiver != n.conn || !n.registered || !w.passes(e.server, n.server) {
		return
	}
	w.deliver(e, n)
}

func (w network) fan(e *event) {
	if !sentThrough(e) || !w.passes(e.server, e.target) {
		return
	}
	e.target.compact()
	nodes := e.target.nodes // the list may grow meanwhile; later nodes do not get the message
	for _, n := range nodes {
		if n.registered && n.server == e.target {
			w.deliver(e, n)
		}
	}
}

func (w network) passes(from, to *Server) bool {
	if from == to {
		return from.up
	}
	way := &w.ways[from.index][to.index]
	return way.route && !way.hole
}

func (w network) lost(n *Node) bool {
	return w.loss > 0 && w.random.Float64() < w.loss || n.lossIn > 0 && w.random.Float64() < n.lossIn
}

func (w network) deliver(e *event, n *Node) {
	if n.ended || !n.started || w.lost(n) {
		return
	}
	if w.config.Account {
		n.traffic.count(e.msg, e.size, false)
	}
	n.step(w.World, membership.Receive{From: e.from.Address, Message: e.msg, Server: n.server.id})
}

// recode encodes and decodes a message. A state sent several times in a row is encoded once.
func (w network) recode(msg membership.Message) membership.Message {
	g, isGossip := msg.(message.Gossip)
	if isGossip && g.State == w.recoded.from {
		return message.Gossip{Target: g.Target, State: w.recoded.to}
	}
	b, err := membership.Encode(msg)
	if err == nil {
		msg, err = membership.Decode(b)
	}
	if err != nil {
		w.fail(fmt.Errorf("a message of a machine cannot be encoded and decoded: %w", err))
	}
	if read, ok := msg.(message.Gossip); isGossip && ok {
		w.recoded.from, w.recoded.to = g.State, read.State
	}
	return msg
}

func (w network) repeat(n *Node) {
	sent := n.sent
	n.sent = nil
	if len(sent) == 0 || w.random.Float64() >= w.config.Repeat {
		return
	}
	from := w.random.IntN(len(sent))
	w.trace.line(w.now, "%v repeats %d messages", n.Address, len(sent)-from)
	for i := range sent[from:] {
		w.send(n, &sent[from+i].envelope)
	}
}
