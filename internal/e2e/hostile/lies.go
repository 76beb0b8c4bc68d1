package hostile

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type lie func(i uint64) error

// A liar makes the messages of a flood.
type liar struct{ *Attacker }

// all returns all kinds of messages, which are sent equally often.
func (a liar) all() []lie {
	packed := a.bomb()
	bomb := func(i uint64) []byte { // rarely, because otherwise bytes would limit the flood
		if i/a.kinds%100 == 0 {
			return packed
		}
		return packed[:100]
	}
	founder := transport.Peer{Address: transport.Address{Name: "z", Incarnation: 1}}
	alive := must(message.Encode(message.Alive{Founder: founder.Address, Size: 1000}))
	control := func(from func(i uint64) transport.Peer, topic wire.ControlTopic, body func(i uint64) []byte) lie {
		return func(i uint64) error {
			return a.publish(a.to(a.Self(i%invented), a.anyMember(), [...]string{"ctl", "any"}[i/7%2]), wire.SealControl(a.cluster, from(i), topic, body(i)))
		}
	}
	asSelf := func(i uint64) transport.Peer { return a.Self(i % invented) }
	asMember := func(uint64) transport.Peer { return transport.Peer{Address: a.anyMember()} }
	asStranger := func(uint64) transport.Peer { return founder }
	const (
		gossip    = wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP
		orders    = wire.ControlTopic_CONTROL_TOPIC_COORDINATOR
		commands  = wire.ControlTopic_CONTROL_TOPIC_ADMIN
		hellos    = wire.ControlTopic_CONTROL_TOPIC_GATEWAY
		singleton = wire.ControlTopic_CONTROL_TOPIC_SINGLETON
	)
	return []lie{
		a.randomBytes, a.mutated, a.inSession,
		a.inventedFrame, a.inventedHello, a.forgedFrame, a.forbiddenSubject,
		control(asSelf, gossip, func(uint64) []byte { return alive }),
		control(asMember, gossip, func(uint64) []byte { return a.removal() }),
		control(asStranger, gossip, bomb),
		control(asSelf, gossip, bomb),
		control(asSelf, commands, func(i uint64) []byte { return a.down(i) }),
		control(asMember, commands, func(i uint64) []byte { return a.down(i) }),
		control(asSelf, orders, a.move), control(asMember, orders, a.move),
		control(asSelf, orders, func(i uint64) []byte {
			return must(coordinator.Encode(coordinator.Ask{Type: fmt.Sprint("K", i)}))
		}),
		control(asSelf, hellos, func(i uint64) []byte { return hello(fmt.Sprint("L", i)) }),
		control(asSelf, singleton, func(uint64) []byte { return a.junk(200) }),
		control(asSelf, orders, func(uint64) []byte { return framer{a}.table() }), control(asMember, orders, func(uint64) []byte { return framer{a}.table() }),
		control(asSelf, orders, func(uint64) []byte { return must(coordinator.Encode(coordinator.TableRequest{})) }),
		control(asSelf, gossip, func(uint64) []byte { return must(message.Encode(message.Join{})) }),
		control(asMember, hellos, func(uint64) []byte { return must(proto.Marshal(&wire.Gateway{Bye: &wire.GatewayBye{}})) }),
		framer{a}.replay, framer{a}.otherVersion, framer{a}.goodbye, framer{a}.extremes, framer{a}.chained, framer{a}.future, framer{a}.empties, framer{a}.unacknowledged, framer{a}.request,
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err) // cannot happen: this program made the message
	}
	return b
}

func (a liar) junk(most int) []byte {
	b := make([]byte, a.random.IntN(most))
	for i := range b {
		b[i] = byte(a.random.Uint32())
	}
	return b
}

func (a liar) randomBytes(i uint64) error {
	return a.publish(a.to(a.Self(i%invented), a.anyMember(), [...]string{"ctl", "0", "any"}[i/5%3]), a.junk(300))
}

// mutated changes some bytes of a valid frame.
func (a liar) mutated(i uint64) error {
	self, m := a.Self(i%invented), a.anyMember()
	h := wire.FrameHeader{Version: wire.FrameVersion, From: self, Seq: a.next(self, m), Count: 2, Session: a.session(self, m), Ack: 1, Handled: 1}
	b := wire.AppendFrameHeader(nil, &h)
	b = wire.AppendEnvelope(b, a.envelope(i))
	b = wire.AppendEnvelope(b, a.envelope(i+a.kinds))
	for range 1 + a.random.IntN(4) {
		switch at := a.random.IntN(len(b)); a.random.IntN(3) {
		case 0:
			b[at] ^= 1 << a.random.IntN(8)
		case 1:
			b = b[:at+1]
		case 2: // a huge number
			b = append(b[:at:at], append([]byte{255, 255, 255, 255, 255, 255, 255, 255, 127}, b[at:]...)...)
		}
	}
	return a.publish(a.to(self, m, "0"), b)
}

func (a liar) inSession(i uint64) error {
	return a.SendFrame(i, a.anyMember(), a.envelope(i))
}

func (a liar) envelope(i uint64) *wire.Envelope {
	const types = 12
	member, round := transport.Peer{Address: a.anyMember()}, i/a.kinds
	e := &wire.Envelope{
		Type: wire.Type(1 + round%types), ID: i, Kind: []byte("Account"), Shard: 1 + a.random.Uint32N(1<<10),
		Epoch: a.random.Uint64N(1 << 40), Entity: fmt.Appendf(nil, "evil-%d", i%100), Method: []byte("Add"), Payload: []byte{8, 1},
	}
	switch {
	case e.Type == wire.TypeCancel:
		e.ID, e.Entity = i%10_000, fmt.Appendf(nil, "web-%d", i%64)
	case round/types%3 == 0:
		e.Node = member
	case round/types%3 == 1:
		e.Chain = a.junk(40)
	}
	switch e.Type {
	case wire.TypeAnswer, wire.TypeRefusal:
		e.Code, e.Seq, e.Node = wire.CodeMoved, 1, transport.Peer{Address: transport.Address{Name: "ghost", Incarnation: 9}}
	case wire.TypeFlush, wire.TypeFlushed, wire.TypeBarrier:
		e.Via = member
	case wire.TypeInit:
		e.Payload, e.Last = wire.AppendRecord(nil, "web-1", []byte{16, 1}, wire.NotRemembered), true
	}
	return e
}

func (a liar) inventedFrame(i uint64) error {
	self := a.Self(1<<32 + i)
	h := wire.FrameHeader{Version: wire.FrameVersion, From: self, Seq: 1, Window: 1 << 20, Hello: 1}
	return a.publish(a.to(self, a.members[0], "0"), wire.AppendFrameHeader(nil, &h))
}

func (a liar) inventedHello(i uint64) error {
	self := a.Self(1<<33 + i)
	return a.publish(a.to(self, a.members[0], "ctl"), wire.SealControl(a.cluster, self, wire.ControlTopic_CONTROL_TOPIC_GATEWAY, hello(fmt.Sprint("M", i))))
}

func hello(asks ...string) []byte {
	return must(proto.Marshal(&wire.Gateway{Hello: &wire.GatewayHello{Lanes: 1, Frame: wire.FrameVersion, Asks: asks}}))
}

// forgedFrame sends a frame in the name of a member, another client or an operator.
func (a liar) forgedFrame(i uint64) error {
	self, m := a.Self(i%invented), a.anyMember()
	from := [...]transport.Peer{
		{Address: a.anyMember()},
		{Address: transport.Address{Name: "web", Incarnation: identity.Mark(identity.Client, i)}, Client: true},
		{Address: transport.Address{Name: a.name, Incarnation: identity.Mark(identity.Operator, i)}, Client: true},
	}[i/11%3]
	h := wire.FrameHeader{Version: wire.FrameVersion, From: from, Seq: 1, Count: 1, Window: 1 << 20, Hello: 1}
	return a.publish(a.to(self, m, "0"), wire.AppendEnvelope(wire.AppendFrameHeader(nil, &h), a.envelope(i)))
}

func (a liar) forbiddenSubject(i uint64) error {
	m := a.anyMember()
	at := fmt.Sprintf("%s.%016x", m.Name, m.Incarnation)
	subject := [...]string{
		"m.all", "m." + at + ".ctl", "c.web.4000000000000001." + at + ".0", "o." + a.name + ".do.c000000000000001." + at,
		"r.c.web.4000000000000001.0.f", "r.m." + at + ".ctl.u.x", "g.any.Account.Add.web-1",
	}[i/13%7]
	return a.publish("sh."+a.cluster+"."+subject, a.junk(50))
}

func (a liar) removal() []byte {
	return must(message.Encode(message.Removal{Target: uint32(a.anyMember().Incarnation)}))
}

func (a liar) down(i uint64) []byte {
	return must(operator.Encode(i, &operator.Request{Command: operator.Down, Node: a.anyMember(), Force: true}, nil))
}

func (a liar) move(i uint64) []byte {
	incarnation := a.members[0].Incarnation
	return must(coordinator.Encode(coordinator.MoveBegin{
		Term: placement.Term{Number: uint32(1 + i%3), Incarnation: incarnation}, ShardID: placement.ShardID{Kind: "Account", Shard: 1 + a.random.Uint32N(1<<10)},
		To: transport.Address{Name: "ghost", Incarnation: 9}, From: placement.MakeEpoch(1, 1), Epoch: placement.MakeEpoch(1, uint32(1000+i)),
	}))
}

// bomb returns gossip with 8 million empty members, compressed to 16 kB.
func (a liar) bomb() []byte {
	const member = 3<<3 | 2 // of wire.MembershipGossip
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		panic(err) // the level is right
	}
	_, _ = w.Write(bytes.Repeat([]byte{member, 0}, 8<<20)) // a buffer takes all
	_ = w.Close()
	return must(proto.Marshal(&wire.MembershipMessage{
		Format: 1, Target: uint32(a.members[0].Incarnation),
		Body: &wire.MembershipMessage_Gossip{Gossip: &wire.MembershipState{Gossip: packed.Bytes(), Compression: wire.MembershipState_DEFLATE}},
	}))
}

// Unacknowledging returns a transport of clients that never acknowledge frames of members.
// Otherwise they behave like ordinary clients.
func Unacknowledging(t transport.Transport) transport.Transport { return unacknowledging{t} }

type unacknowledging struct{ transport.Transport }

// Open opens a link that acknowledges nothing.
func (u unacknowledging) Open(ctx context.Context, o transport.Options) (transport.Link, error) {
	l, err := u.Transport.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return unacknowledgingLink{l}, nil
}

type unacknowledgingLink struct{ transport.Link }

// Send removes the acknowledgement from a frame and sends it.
func (l unacknowledgingLink) Send(ch transport.Channel, to transport.Peer, token uint64, payload []byte) error {
	if ch == transport.Control {
		return l.Link.Send(ch, to, token, payload)
	}
	var r wire.FrameReader
	h, rest, err := r.Header(payload)
	if err != nil {
		return err
	}
	h.Ack, h.Handled = 0, 0
	return l.Link.Send(ch, to, token, append(wire.AppendFrameHeader(nil, &h), rest...))
}
