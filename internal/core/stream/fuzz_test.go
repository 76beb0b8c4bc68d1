package stream

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// FuzzSession feeds both kinds of sessions with headers that a peer may send: any numbers in any
// order. Nothing may panic and no invariant may break. The peer's sequences must be taken once,
// without a gap.
func FuzzSession(f *testing.F) {
	step := func(which byte, numbers ...byte) []byte { return append([]byte{which}, numbers...) }
	f.Add(step(0, 1, 1, 0, 0, 0, 0, 0))
	f.Add(append(step(0, 1, 3, 0, 0, 1, 1, 0), step(0, 9, 9, 9, 9, 9, 9, 1)...))
	f.Add(append(step(1, 1, 1, 1, 1, 1, 1, 2), step(2, 0, 0, 0, 0, 0, 0, 0)...))
	f.Fuzz(func(t *testing.T, script []byte) {
		member := transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}}
		client := transport.Peer{Address: transport.Address{Name: "web", Incarnation: identity.Mark(identity.Client, 1)}, Client: true}
		config := func(self transport.Peer) Config {
			return Config{Self: self, Session: 1, MaxPayload: 1 << 16, Window: 1 << 10, MaxBuffered: 1 << 12, Account: NewAccount(1<<10, nil)}
		}
		sessions := []*Session{NewSession(config(member), client), NewSession(config(client), member), NewSession(config(member), member)}
		now := time.Unix(1000, 0)
		const words = 8
		for ; len(script) >= words; script = script[words:] {
			now = now.Add(time.Duration(script[0]>>2) * 10 * time.Millisecond)
			p := sessions[int(script[0]&3)%len(sessions)]
			h := wire.FrameHeader{
				Seq: number(script[1], p.Received()+1), Count: uint32(number(script[2], 1)), Ack: number(script[3], p.Acked()+1),
				Handled: number(script[4], p.Next()-1), Session: number(script[5], 1), Hello: number(script[6], 1),
				Window: number(script[7], 1<<10), Flags: uint32(script[7] >> 4),
			}
			before := p.Received()
			skip, ok := p.Receive(&h, now)
			if ok && h.Count > 0 {
				if h.Seq+uint64(skip) > before+1 || p.Received() < before {
					t.Fatalf("after %d, a frame of %d envelopes from %d is taken, of which %d are known", before, h.Count, h.Seq, skip)
				}
			} else if p.Received() != before {
				t.Fatalf("an ignored frame was received: %d, before %d", p.Received(), before)
			}
			if ok {
				p.Ack(&h, now)
			}
			if script[1]&1 == 0 {
				_, _ = p.Append(&wire.Envelope{Type: wire.TypeAnswer, ID: 1, Payload: script[:words]})
			}
			for range 3 {
				if _, token, ok := p.Take(now, p.Received()); !ok {
					break
				} else if script[2]&1 == 0 {
					p.Bounced(token, now)
				}
			}
			p.Tick(now)
			if err := p.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// number returns the number that a byte stands for: the right one, one near to it, or an extreme.
func number(b byte, right uint64) uint64 {
	extremes := [...]uint64{0, 1, math.MaxUint32, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64 - 1, math.MaxUint64}
	switch b >> 6 {
	case 0:
		return right
	case 1:
		return right + uint64(b&15)
	case 2:
		return right - uint64(b&15)
	}
	return extremes[int(b)%len(extremes)] + uint64(binary.BigEndian.Uint16([]byte{0, b & 1}))
}
