package hostile

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A framer makes frames with valid sessions, sequence numbers and epochs.
type framer struct{ liar }

// seldom returns true in one of 200 rounds, for large messages. If these were more frequent, bytes
// instead of messages would limit the flood.
func (a framer) seldom(i uint64) bool { return i/a.kinds%200 == 0 }

func (a framer) replay(uint64) error {
	if len(a.kept) == 0 {
		return nil
	}
	old := a.kept[a.random.IntN(len(a.kept))]
	return a.publish(old.subject, old.data)
}

func (a framer) frame(self transport.Peer, m transport.Address, h wire.FrameHeader, body []byte) error {
	h.From = self
	return a.publish(a.to(self, m, "0"), append(wire.AppendFrameHeader(nil, &h), body...))
}

// otherVersion sends a frame of this or later versions, with a long name.
func (a framer) otherVersion(i uint64) error {
	self, m, size := a.Self(i%invented), a.anyMember(), 200
	if a.seldom(i) {
		size = 900_000
	}
	h := wire.FrameHeader{Version: wire.FrameVersion + uint32(i/a.kinds%3), Seq: a.next(self, m), Session: a.session(self, m)}
	h.From = self
	h.From.Name = strings.Repeat("n", size)
	return a.publish(a.to(self, m, "0"), wire.AppendFrameHeader(nil, &h))
}

// goodbye ends a session, forging the name of an invented process, a member or another client.
func (a framer) goodbye(i uint64) error {
	self, m := a.Self(1<<34+i%invented), a.anyMember()
	h := wire.FrameHeader{Version: wire.FrameVersion, From: self, Seq: 1, Hello: 1, Flags: wire.FlagBye, Session: a.random.Uint64N(9)}
	switch i / a.kinds % 3 {
	case 1:
		h.From = transport.Peer{Address: a.anyMember()}
	case 2:
		h.From = transport.Peer{Address: transport.Address{Name: "web", Incarnation: self.Incarnation}, Client: true}
	}
	return a.publish(a.to(self, m, "0"), wire.AppendFrameHeader(nil, &h))
}

// extremes sends a frame with some numbers at the ends of their ranges.
func (a framer) extremes(i uint64) error {
	self, m := a.Self(i%invented), a.anyMember()
	one := func(right uint64) uint64 {
		all := [...]uint64{right, right, right, 0, 1, math.MaxUint32, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64}
		return all[a.random.IntN(len(all))]
	}
	h := wire.FrameHeader{
		Version: wire.FrameVersion, Seq: one(a.next(self, m)), Count: uint32(one(1)), Ack: one(0), Handled: one(0), Window: one(1 << 20),
		Session: one(a.session(self, m)), Hello: one(1), Flags: uint32(one(0)),
	}
	return a.frame(self, m, h, wire.AppendEnvelope(nil, a.envelope(i)))
}

func (a framer) chained(i uint64) error {
	e, deep := a.ask(i, "Add", []byte{8, 1}), 1+a.random.IntN(50)
	if a.seldom(i) {
		deep = 20_000
	}
	for n := range deep {
		e.Chain = wire.AppendLink(e.Chain, "Account", fmt.Sprint("evil-", n), 1<<8)
	}
	if i/a.kinds%2 == 0 {
		e.Chain = wire.AppendLink(nil, "Account", strings.Repeat("x", 16*deep), 1<<8)
	}
	return a.SendFrame(i, a.anyMember(), e)
}

func (a framer) ask(i uint64, method string, args []byte) *wire.Envelope {
	id := fmt.Sprint("evil-", i%100)
	e := &wire.Envelope{
		Type: wire.TypeCall, ID: i, Kind: []byte("Account"), Shard: placement.ShardOf(region.Hash(id), placement.DefaultShards),
		Entity: []byte(id), Method: []byte(method), Payload: args, Timeout: 1_000_000, Epoch: 1,
	}
	if at, ok := a.homeOf(e.Shard); ok {
		e.Epoch = at.epoch
	}
	return e
}

func (a framer) future(i uint64) error {
	e := a.ask(i, "Add", []byte{8, 1})
	e.Epoch = [...]uint64{e.Epoch + 1, e.Epoch + 1<<32, math.MaxInt64, math.MaxUint64}[a.random.IntN(4)]
	return a.SendFrame(i, a.anyMember(), e)
}

// empties fills a frame with empty envelopes.
func (a framer) empties(i uint64) error {
	self, m, n := a.Self(i%invented), a.anyMember(), 1000
	if a.seldom(i) {
		n = 900_000
	}
	one := wire.AppendEnvelope(nil, &wire.Envelope{})
	n /= len(one)
	h := wire.FrameHeader{Version: wire.FrameVersion, Seq: a.next(self, m), Count: uint32(n), Session: a.session(self, m), Window: 1 << 20}
	return a.frame(self, m, h, bytes.Repeat(one, n))
}

// unacknowledged sends a call, and never acknowledges its answer of 4 kB.
func (a framer) unacknowledged(i uint64) error {
	e := a.ask(i, "Echo", append([]byte{10, 0x80, 0x20}, make([]byte, 4096)...))
	m := a.anyMember()
	if at, ok := a.homeOf(e.Shard); ok {
		m = at.member
	}
	return a.SendFrame(i, m, e)
}

// table returns a forged shard map or status.
func (a framer) table() []byte {
	term := placement.Term{Number: 1 << 30, Incarnation: a.members[0].Incarnation}
	if a.random.IntN(2) == 0 {
		return must(coordinator.Encode(coordinator.TableStatus{Version: placement.Version{Term: term, Seq: 1 << 30}}))
	}
	return must(coordinator.Encode(coordinator.Table{Diff: placement.Diff{To: placement.Version{Term: term, Seq: 1 << 30}, Full: true}, Parts: 1}))
}

// request sends a gateway a short call, a long one, or deeply nested JSON.
func (a framer) request(i uint64) error {
	if a.gateway == nil {
		return nil
	}
	m := nats.NewMsg(fmt.Sprintf("sh.%s.g.php.Account.Add.evil-%d", a.cluster, i%100))
	m.Reply = "_INBOX.php.x"
	m.Data = []byte(`{"n": 1}`)
	switch deep := 10 + a.random.IntN(1000); i / a.kinds % 3 {
	case 1:
		m.Header.Set("Shard-Timeout", "60s")
		m.Subject = fmt.Sprintf("sh.%s.g.php.Account.Hold.evil-%d", a.cluster, i%100)
	case 2:
		if a.seldom(i) {
			deep = 200_000
		}
		m.Data = []byte(`{"n": ` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + "}")
	}
	a.sent++
	return a.gateway.PublishMsg(m)
}
