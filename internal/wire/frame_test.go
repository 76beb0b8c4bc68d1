package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire/framepb"
	"github.com/shardgen/shardgen/transport"
)

// whole is a frame and its envelopes, in the form that tests compare.
type whole struct {
	Header    FrameHeader
	Envelopes []Envelope
}

func (w whole) encode() []byte {
	h := w.Header
	b := AppendFrameHeader(nil, &h)
	for i := range w.Envelopes {
		b = AppendEnvelope(b, &w.Envelopes[i])
	}
	return b
}

func decode(b []byte) (w whole, err error) {
	var r FrameReader
	h, rest, err := r.Header(b)
	if err != nil {
		return w, err
	}
	w.Header = h
	for {
		var e Envelope
		var ok bool
		if rest, ok, err = NextEnvelope(rest, &e); err != nil || !ok {
			return w, err
		}
		w.Envelopes = append(w.Envelopes, e)
	}
}

// proto is the frame as the .proto file describes it.
func (w whole) proto() *framepb.Frame {
	h := w.Header
	f := &framepb.Frame{
		Version: h.Version, From: h.From.Name, Incarnation: h.From.Incarnation, Client: h.From.Client,
		Seq: h.Seq, Count: h.Count, Ack: h.Ack, Window: h.Window, Flags: h.Flags, Session: h.Session, Hello: h.Hello,
	}
	if h.Handled > h.Ack {
		f.Handled = h.Handled
	}
	for _, e := range w.Envelopes {
		f.Envelopes = append(f.Envelopes, &framepb.Envelope{
			Type: uint32(e.Type), Id: e.ID, Kind: string(e.Kind), Shard: e.Shard, Epoch: e.Epoch,
			Entity: e.Entity, Method: string(e.Method), Timeout: e.Timeout, Payload: e.Payload,
			Code: uint32(e.Code), Text: string(e.Text), Node: node(e.Node), Chain: e.Chain,
			Seq: e.Seq, Last: e.Last, Via: node(e.Via), Hop: e.Hop, Command: e.Command, Info: e.Info,
		})
	}
	return f
}

func node(p transport.Peer) *framepb.Node {
	if p.IsZero() {
		return nil
	}
	return &framepb.Node{Name: p.Name, Incarnation: p.Incarnation, Client: p.Client}
}

// randomFrame returns a frame in which each field is random or zero.
func randomFrame(r *rand.Rand) whole {
	h := FrameHeader{
		Version: FrameVersion, From: randomPeer(r), Seq: randomUint(r), Count: uint32(randomUint(r)),
		Ack: randomUint(r), Window: randomUint(r), Flags: uint32(r.IntN(8)), Session: randomUint(r), Hello: randomUint(r),
	}
	h.Handled = max(h.Ack, randomUint(r))
	w := whole{Header: h}
	for range r.IntN(4) {
		w.Envelopes = append(w.Envelopes, randomEnvelope(r))
	}
	return w
}

func randomEnvelope(r *rand.Rand) Envelope {
	e := Envelope{
		Type: Type(r.Uint32N(13)), ID: randomUint(r), Kind: randomText(r), Shard: uint32(randomUint(r)),
		Epoch: randomUint(r), Entity: randomBytes(r), Method: randomText(r), Timeout: randomUint(r),
		Payload: randomBytes(r), Code: Code(r.Uint32N(20)), Text: randomText(r), Chain: randomBytes(r),
		Seq: randomUint(r), Last: r.IntN(2) == 0, Hop: randomUint(r), Command: randomBytes(r), Info: randomBytes(r),
	}
	if r.IntN(2) == 0 {
		e.Node = randomPeer(r)
	}
	if r.IntN(2) == 0 {
		e.Via = randomPeer(r)
	}
	return e
}

func randomPeer(r *rand.Rand) transport.Peer {
	const letters = "abcXYZ019-_"
	name := make([]byte, 1+r.IntN(transport.MaxNameBytes))
	for i := range name {
		name[i] = letters[r.IntN(len(letters))]
	}
	return transport.Peer{Address: transport.Address{Name: string(name), Incarnation: r.Uint64()}, Client: r.IntN(2) == 0}
}

// randomUint returns 0, a small number, or a number of any size.
func randomUint(r *rand.Rand) uint64 {
	switch r.IntN(3) {
	case 0:
		return 0
	case 1:
		return r.Uint64N(300)
	}
	return r.Uint64() >> r.IntN(64)
}

func randomBytes(r *rand.Rand) []byte {
	if r.IntN(3) == 0 {
		return nil
	}
	b := make([]byte, 1+r.IntN(300))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// randomText returns valid UTF-8, as proto3 requires of strings.
func randomText(r *rand.Rand) []byte {
	if n := r.IntN(4); n > 0 {
		return []byte(strings.Repeat("né世", n))
	}
	return nil
}

func TestCodecAgreesWithProtobuf(t *testing.T) {
	for seed := range uint64(500) {
		want := randomFrame(rand.New(rand.NewPCG(seed, 1)))
		var pb framepb.Frame
		if err := proto.Unmarshal(want.encode(), &pb); err != nil {
			t.Fatalf("seed %d: protobuf cannot read the hand codec: %v", seed, err)
		}
		if !proto.Equal(&pb, want.proto()) {
			t.Fatalf("seed %d: protobuf read\n%v\nwant\n%v", seed, &pb, want.proto())
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(want.proto())
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(b)
		if err != nil {
			t.Fatalf("seed %d: the hand codec cannot read protobuf: %v", seed, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: hand codec read\n%+v\nwant\n%+v", seed, got, want)
		}
	}
}

func TestSizeBounds(t *testing.T) {
	peer := transport.Peer{Address: transport.Address{Name: strings.Repeat("x", transport.MaxNameBytes), Incarnation: ^uint64(0)}, Client: true}
	h := FrameHeader{^uint32(0), peer, ^uint64(0), ^uint32(0), ^uint64(0) - 1, ^uint64(0), ^uint64(0), ^uint32(0), ^uint64(0), ^uint64(0)}
	if n := len(AppendFrameHeader(nil, &h)); n > MaxFrameHeader {
		t.Errorf("header: %d bytes, want at most MaxFrameHeader = %d", n, MaxFrameHeader)
	}
	for _, payload := range []int{0, 1, 1 << 14, 1<<21 - 1, 1 << 21, 3 << 20} {
		b := bytes.Repeat([]byte{'x'}, 20)
		e := Envelope{
			^Type(0), ^uint64(0), b, ^uint32(0), ^uint64(0), b, b, ^uint64(0), append([]byte(nil), make([]byte, payload)...),
			^Code(0), b, peer, b, ^uint64(0), true, peer, ^uint64(0), b, b,
		}
		encoded := AppendEnvelope(nil, &e)
		if len(encoded) > e.SizeBound() {
			t.Errorf("envelope: %d bytes, want at most SizeBound = %d", len(encoded), e.SizeBound())
		}
		var got Envelope
		if rest, ok, err := NextEnvelope(encoded, &got); !ok || err != nil || len(rest) != 0 || !reflect.DeepEqual(got, e) {
			t.Errorf("an envelope with %d bytes of payload came back different (ok %v, error %v, %d bytes left)", payload, ok, err, len(rest))
		}
	}
}

// TestUnknownFields: unknown fields are skipped anywhere, because a newer program of the same
// format may add them.
func TestUnknownFields(t *testing.T) {
	extra := func(b []byte) []byte {
		b = protowire.AppendTag(b, 100, protowire.VarintType)
		b = protowire.AppendVarint(b, 7)
		b = protowire.AppendTag(b, 101, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, 7)
		b = protowire.AppendTag(b, 102, protowire.Fixed64Type)
		b = protowire.AppendFixed64(b, 7)
		b = protowire.AppendTag(b, 103, protowire.BytesType)
		b = protowire.AppendBytes(b, []byte("new"))
		b = protowire.AppendTag(b, 104, protowire.StartGroupType)
		return protowire.AppendTag(b, 104, protowire.EndGroupType)
	}
	want := randomFrame(rand.New(rand.NewPCG(1, 2)))
	want.Envelopes = []Envelope{randomEnvelope(rand.New(rand.NewPCG(1, 3))), randomEnvelope(rand.New(rand.NewPCG(1, 4)))}
	b := AppendFrameHeader(extra(nil), &want.Header)
	b = extra(b)
	for i := range want.Envelopes {
		e := &want.Envelopes[i]
		body := extra(appendEnvelopeFields(slices.Grow(extra(nil), e.SizeBound()), e))
		b = protowire.AppendTag(b, frameEnvelopes, protowire.BytesType)
		b = extra(protowire.AppendBytes(b, body))
	}
	got, err := decode(b)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
}

func TestHeaderRefusals(t *testing.T) {
	good := FrameHeader{Version: FrameVersion, From: transport.Peer{Address: transport.Address{Name: "n1", Incarnation: 1}}}
	newer, foreign, nameless := good, good, good
	newer.Version = FrameVersion + 1
	foreign.From.Name = "a.b"
	nameless.From.Name = ""
	tests := []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, "no version"},
		{"text", []byte("hello, world"), "frame"},
		{"newer", AppendFrameHeader(nil, &newer), "format version 2, this program reads up to 1"},
		{"foreign name", AppendFrameHeader(nil, &foreign), `holds '.'`},
		{"no name", AppendFrameHeader(nil, &nameless), "sender name is empty"},
		{"cut", AppendFrameHeader(nil, &good)[:5], "frame header"},
	}
	for _, tt := range tests {
		var r FrameReader
		_, _, err := r.Header(tt.b)
		if !errors.Is(err, ErrFrame) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want ErrFrame with %q", tt.name, err, tt.want)
		}
	}
}

// TestHeaderChecksEachName: each name is checked, whatever name the reader has read before.
func TestHeaderChecksEachName(t *testing.T) {
	frame := func(name string) []byte {
		return AppendFrameHeader(nil, &FrameHeader{Version: FrameVersion, From: transport.Peer{Address: transport.Address{Name: name, Incarnation: 1}}})
	}
	names := []string{"", "n1", "n.", "n1.", "n", "N1", "a.b", strings.Repeat("n", transport.MaxNameBytes), strings.Repeat("n", transport.MaxNameBytes+1)}
	for _, before := range names {
		for _, name := range names {
			var r FrameReader
			_, _, _ = r.Header(frame(before))
			for range 2 {
				h, _, err := r.Header(frame(name))
				if want := transport.CheckName("", name) == nil; want != (err == nil) || want && h.From.Name != name {
					t.Errorf("%q behind %q: got %q, %v", name, before, h.From.Name, err)
				}
			}
		}
	}
}

func TestVoidEnvelope(t *testing.T) {
	e := Envelope{Type: TypeCall, ID: 5, Kind: []byte("K"), Entity: []byte("e")}
	b := AppendEnvelope(nil, &e)
	size := len(b)
	for range 2 { // a second time changes nothing
		if !VoidEnvelope(b) {
			t.Fatal("refused")
		}
		var got Envelope
		if rest, ok, err := NextEnvelope(b, &got); !ok || err != nil || len(rest) != 0 || len(b) != size {
			t.Fatalf("ok %v, error %v, %d bytes left", ok, err, len(rest))
		}
		if got.Type != 0 || got.ID != 5 {
			t.Errorf("got type %d, id %d, want 0, 5", got.Type, got.ID)
		}
	}
	for _, b := range [][]byte{nil, {0x7a}, {0x7a, 0x05}, {0x7a, 0x01, 0x08}, AppendEnvelope(nil, &Envelope{ID: 1})} {
		if VoidEnvelope(bytes.Clone(b)) {
			t.Errorf("%x: voided, and holds no envelope with a type", b)
		}
	}
}

// TestNoAllocation: writing and reading a call's frame allocates nothing after the first one.
func TestNoAllocation(t *testing.T) {
	w := typicalCall()
	buf := make([]byte, 0, 1024)
	encoded := w.encode()
	var r FrameReader
	var e Envelope
	if n := testing.AllocsPerRun(200, func() {
		buf = AppendFrameHeader(buf[:0], &w.Header)
		buf = AppendEnvelope(buf, &w.Envelopes[0])
	}); n != 0 {
		t.Errorf("append: %v allocations, want 0", n)
	}
	if n := testing.AllocsPerRun(200, func() {
		_, rest, err := r.Header(encoded)
		if err != nil {
			t.Error(err)
		}
		if _, ok, err := NextEnvelope(rest, &e); !ok || err != nil {
			t.Error(ok, err)
		}
	}); n != 0 {
		t.Errorf("parse: %v allocations, want 0", n)
	}
	if string(e.Entity) != "cart-17" {
		t.Errorf("got entity %q", e.Entity)
	}
}

func typicalCall() whole {
	return whole{
		Header: FrameHeader{
			Version: FrameVersion, From: transport.Peer{Address: transport.Address{Name: "web-1", Incarnation: 1 << 60}},
			Seq: 1234567, Count: 1, Ack: 1234566, Handled: 1234566, Window: 1 << 20,
		},
		Envelopes: []Envelope{{
			Type: TypeCall, ID: 77, Kind: []byte("Cart"), Shard: 300, Epoch: 1<<32 | 4, Entity: []byte("cart-17"),
			Method: []byte("Add"), Timeout: 5_000_000, Payload: make([]byte, 64),
		}},
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(typicalCall().encode())
	f.Add(randomFrame(rand.New(rand.NewPCG(3, 4))).encode())
	f.Add([]byte{0x08, 0x01, 0x12, 0x01, 'a', 0x7a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrFrame) {
				t.Errorf("%v is no ErrFrame", err)
			}
			return
		}
		size := 0
		for _, e := range w.Envelopes {
			size += len(e.Kind) + len(e.Entity) + len(e.Method) + len(e.Payload) + len(e.Text) + len(e.Chain)
		}
		if size > len(b) {
			t.Errorf("%d bytes came out of %d", size, len(b))
		}
		again, err := decode(w.encode())
		if err != nil || len(again.Envelopes) != len(w.Envelopes) || again.Header != w.Header {
			t.Errorf("written again it reads %+v, %v, want %+v", again, err, w)
		}
		VoidEnvelope(bytes.Clone(b))
	})
}

func BenchmarkCall(b *testing.B) {
	w := typicalCall()
	buf := make([]byte, 0, 1024)
	encoded := w.encode()
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendEnvelope(buf[:0], &w.Envelopes[0])
		}
	})
	b.Run("parse", func(b *testing.B) {
		var r FrameReader
		var e Envelope
		_, rest, err := r.Header(encoded)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			_, _, _ = NextEnvelope(rest, &e)
		}
	})
}
