package shardhost

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Call is a call of an entity, in the process that hosts the entity. It came from another
// process, or through this process's queues, or from a local caller that waits for its turn. The
// host embeds Call in a type of its own, and stores the value in region.Call.Driver.
type Call struct {
	region.Call
	ID       uint64 // the caller's number of the call; 0 for a tell
	Method   []byte
	Args     []byte
	Links    []byte // the turns that wait for the call, encoded
	Deadline int64  // nanoseconds after the process's base; 0 means none
	Command  []byte // the id of a durable entity's command, encoded; nil means none
	Info     []byte // the caller's metadata of the call, encoded; nil means none
	Tell     bool
	Frame    uint32 // bytes of the frame that the slices are part of; 0 means that the call owns them
}

type carrier interface{ hosted() *Call }

func (c *Call) hosted() *Call { return c }

func of(c *region.Call) *Call { return c.Driver.(carrier).hosted() }

// Fill sets c, which must be empty, to the call in an envelope from a process. at is when the
// envelope arrived, in nanoseconds after the process's base. The call shares the envelope's slices.
func (c *Call) Fill(from transport.Peer, e *wire.Envelope, at int64) {
	c.ID, c.Method, c.Args, c.Links, c.Command = e.ID, e.Method, e.Payload, e.Chain, e.Command
	c.Tell, c.Info = e.Type == wire.TypeTell, e.Info
	c.Entity = wire.StringOf(e.Entity)
	c.Sender = from
	if e.Relayed() {
		c.Sender, c.Via, c.Straight = e.Node, from.Address, e.Hop != 0
	}
	if len(e.Info) > 0 {
		c.Gateway = wire.GatewayOf(e.Info)
	}
	c.Epoch, c.Size = placement.Epoch(e.Epoch), e.KeptSize()
	if len(e.Chain) > 0 {
		c.Chain = Chain(e.Chain)
	}
	c.Deadline = e.Deadline(at)
}

const smallFrame = 512

// Detach copies a waiting call out of its frame if the frame is much larger than the call, because
// the call would otherwise keep the whole frame in memory. No other goroutine has the call yet.
func (c *Call) Detach() {
	if int(c.Frame) < 2*c.Size+smallFrame {
		return
	}
	own := make([]byte, 0, c.Size)
	take := func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		at := len(own)
		own = append(own, b...)
		return own[at:len(own):len(own)]
	}
	c.Args, c.Method, c.Links, c.Command = take(c.Args), take(c.Method), take(c.Links), take(c.Command)
	c.Info = take(c.Info)
	at := len(own)
	own = append(own, c.Entity...)
	c.Entity = wire.StringOf(own[at:])
	if c.Chain != nil {
		c.Chain = Chain(c.Links)
	}
	c.Frame = 0
}

// envelope returns the envelope that forwards the call. now is in nanoseconds after the process's
// base.
func (c *Call) envelope(kind []byte, shard uint32, now int64) *wire.Envelope {
	e := &wire.Envelope{
		Type: wire.TypeCall, ID: c.ID, Kind: kind, Shard: shard,
		Entity: []byte(c.Entity), Method: c.Method, Payload: c.Args, Chain: c.Links,
		Command: c.Command, Info: c.Info,
	}
	if c.Tell {
		e.Type = wire.TypeTell
	}
	if c.Deadline != 0 {
		e.Timeout = uint64(max(time.Duration(c.Deadline-now).Microseconds(), 1))
	}
	return e
}

// A Chain is the encoded list of the turns that wait for a call. It is decoded only when the call
// meets a busy entity or a shard that is not open.
type Chain []byte

// HoldsShard reports whether a turn of an entity in that shard waits for the call.
func (c Chain) HoldsShard(s placement.ShardID) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Shard == s.Shard })
}

// HoldsEntity reports whether the turn of that entity waits for the call.
func (c Chain) HoldsEntity(s placement.ShardID, entity string) bool {
	return c.any(func(l wire.Link) bool { return l.Kind == s.Kind && l.Entity == entity })
}

func (c Chain) any(match func(wire.Link) bool) bool {
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

// String returns the chain as text, such as "Cart/7 → Stock/tea → ".
func (c Chain) String() string {
	links, _ := wire.ParseChain(c)
	var s string
	for _, l := range links {
		s += l.Kind + "/" + bounded.ID(l.Entity) + " → "
	}
	return s
}

// A Refusal says why a call from another process is refused.
type Refusal struct {
	Code  wire.Code
	Epoch placement.Epoch   // with CodeMoved: the epoch of the placement that this process knows
	Home  transport.Address // with CodeMoved: the home of that placement
	Text  string
}

// Answer returns the answer that refuses the call e, whose sequence number is seq. If direct is
// true, the call came directly from its caller: the answer goes back on the call's session, because
// the peer there still has the call. If direct is false, the call was forwarded, and the answer
// goes to the caller's process e.Node. A forwarded tell gets no answer and is lost; ok is then
// false.
func (r Refusal) Answer(e *wire.Envelope, seq uint64) (answer *wire.Envelope, direct, ok bool) {
	answer = &wire.Envelope{
		Type: wire.TypeRefusal, ID: e.ID, Kind: e.Kind, Shard: e.Shard, Seq: seq,
		Code: r.Code, Epoch: uint64(r.Epoch), Node: transport.Peer{Address: r.Home}, Text: []byte(r.Text),
	}
	if !e.Relayed() {
		return answer, true, true
	}
	answer.Type, answer.Seq = wire.TypeAnswer, 0
	return answer, false, e.Type != wire.TypeTell
}
