package message

import (
	"bytes"
	"compress/flate"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// everyMessage is one message of each type, with everything set.
func everyMessage() []Message {
	a, b, c := addr("a", 1), addr("b", 1<<63), addr("c", 3)
	state := &gossip.State{
		Founder: a,
		Members: []gossip.Member{
			{Address: a, Status: gossip.Up, UpNumber: 1, Roles: []string{"web"}, Meta: []gossip.KeyValue{{Key: "kind/Counter", Value: "256"}}},
			{Address: b, Status: gossip.Down, UpNumber: 2, ExitReady: true, Forced: true, Fenced: true},
		},
		Rows:           []gossip.ObserverRow{{Observer: a, Version: 7, Records: []gossip.Record{{Subject: b, Evidence: gossip.EvidenceGone, Quiet: 1500 * time.Millisecond, Vouched: 6 * time.Second}}}},
		UpCounter:      2,
		RemovalCounter: 5,
		Tombstones:     []gossip.Tombstone{{Node: c, Number: 5, Left: true}},
		Seen:           gossip.SeenSet{1},
		Version:        gossip.VectorClock{{Node: a, Count: 300}, {Node: b, Count: 2}, {Node: c, Count: 1}},
	}
	return []Message{
		Hello{3, []string{"a", "b"}, 100 * time.Millisecond, true},
		HelloAck{Target: 2},
		HelloAck{2, b},
		Join{1, []string{"web"}, []gossip.KeyValue{{Key: "m", Value: "1"}}, []gossip.KeyValue{{Key: "lanes", Value: "4"}}, 7, "s1", true},
		Welcome{2, state},
		JoinRefused{2, true, "lanes"},
		Gossip{2, state},
		Status{Target: 2, Version: gossip.Digest{5, 6}, Changes: 303, Members: 2, Seen: gossip.SeenSet{1}},
		Status{Version: gossip.Digest{5, 6}, Changes: 303, Members: 130, Seen: gossip.SeenSet{0, 0, 2}},
		Status{Version: gossip.Digest{5, 6}, Changes: 303, All: true},
		Heartbeat{2, 9, 1 << 31, 8, true},
		HeartbeatAck{2, 9, 7},
		Alive{a, 3, 1 << 60, 7, true},
		Vote{2, 9, 1 << 60, 999, 7},
		VoteAck{2, 9, time.Millisecond, 2 * time.Second, 3 * time.Second, 0},
		Echo{77},
		Removal{2, true},
		Snapshot{2, 8, &rows.Table{Version: 9, Rows: []rows.Row{
			{
				Member: state.Members[0], Compat: []gossip.KeyValue{{Key: "lanes", Value: "4"}}, Founder: c, Server: "s1/1",
				Suspicions: []rows.Suspicion{{By: b, At: moment(5)}}, Started: moment(1), Alive: moment(4),
			},
			{Member: gossip.Member{Address: b, Status: gossip.Down, UpNumber: 2, Fenced: true, Forced: true}, Founder: c, Ended: moment(9)},
			{Member: gossip.Member{Address: c, Status: gossip.Removed, UpNumber: 1, ExitReady: true}, Founder: c},
		}}, []transport.Address{addr("d", 4)}},
		Stand{2, 9, 7, 3, 1 << 31, []transport.Address{b}, time.Second, []Contact{{b, 3 * time.Second}}},
		StandAck{2, 9, 4, 7, time.Millisecond, 2 * time.Second},
		Probe{2, 9, 7, 1 << 31},
		ProbeAck{2, 9, 7},
		IndirectProbe{2, 9, c, 5 * time.Second},
		IndirectAck{2, 9, true, 8},
		Touch{2},
	}
}

func moment(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms).UTC() }

// unkept returns the message without data that is cached with a state.
func unkept(m Message) Message {
	switch m := m.(type) {
	case Welcome:
		m.State = m.State.Clone()
		return m
	case Gossip:
		m.State = m.State.Clone()
		return m
	}
	return m
}

func TestCodecRoundTrip(t *testing.T) {
	for _, m := range everyMessage() {
		b, err := Encode(m)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		got, err := Decode(b)
		if err != nil || !reflect.DeepEqual(unkept(got), m) {
			t.Errorf("%T:\ngot  %+v, %v\nwant %+v", m, got, err, m)
		}
		// A later release's field is skipped.
		later := protowire.AppendTag(b, 500, protowire.BytesType)
		later = protowire.AppendString(later, "later")
		if got, err := Decode(later); err != nil || !reflect.DeepEqual(unkept(got), m) {
			t.Errorf("%T with an unknown field: got %+v, %v", m, got, err)
		}
	}
}

func TestGossipIsCompressed(t *testing.T) {
	g := &gossip.State{Founder: addr("n00", 1), UpCounter: 50}
	for i := range 50 {
		r := gossip.Member{Address: addr(fmt.Sprintf("n%02d", i), uint64(i+1)), Status: gossip.Up, UpNumber: uint32(i + 1)}
		for k := range 10 {
			r.Meta = append(r.Meta, gossip.KeyValue{Key: fmt.Sprintf("kind/Kind%d/package", k), Value: "example.com/shop/orders"})
		}
		g.Members = append(g.Members, r)
		g.Version = append(g.Version, gossip.ClockEntry{Node: r.Address, Count: 4})
	}
	g.Seen = gossip.FullSeenSet(50)
	b, err := Encode(Gossip{2, g})
	if err != nil || len(b) > 4096 {
		t.Errorf("got %d bytes for 50 members of 10 kinds, %v; want at most 4096", len(b), err)
	}
	if m, err := Decode(b); err != nil || !reflect.DeepEqual(unkept(m), Gossip{2, g}) {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	gossip := func(change func(*wire.MembershipGossip)) []byte {
		w := &wire.MembershipGossip{
			Addresses: []*wire.MembershipAddress{{Name: "a", Incarnation: 1}, {Name: "b", Incarnation: 2}},
			Members:   []*wire.MembershipMember{{Address: 0, Status: wire.MembershipMember_JOINING}},
			Seen:      []byte{0},
		}
		change(w)
		plain, err := proto.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		return stateMessage(t, &wire.MembershipState{Gossip: plain})
	}
	bomb := &bytes.Buffer{}
	w, _ := flate.NewWriter(bomb, flate.BestCompression)
	for range maxGossipBytes/4096 + 2 {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "format 0"},
		{"noise", []byte("GET / HTTP/1.1"), "decode membership message"},
		{"a later format", []byte{8, 2}, "format 2"},
		{"no body", []byte{8, 1}, "unknown kind"},
		{"no members", gossip(func(w *wire.MembershipGossip) { w.Addresses, w.Members, w.Seen = nil, nil, nil }), "address index 0, but the message has 0"},
		{"an address that is none", gossip(func(w *wire.MembershipGossip) { w.Members[0].Address = 9 }), "address index 9, but the message has 2"},
		{"a seen set too long", gossip(func(w *wire.MembershipGossip) { w.Seen = []byte{1, 0} }), "2 bytes for 1 members"},
		{"seen by nobody known", gossip(func(w *wire.MembershipGossip) { w.Seen = []byte{2} }), "more than the 1 members"},
		{"a member twice", gossip(func(w *wire.MembershipGossip) { w.Members = append(w.Members, w.Members[0]) }), "address twice"},
		{"a name with a wildcard", gossip(func(w *wire.MembershipGossip) { w.Addresses[1].Name = "*" }), "holds '*'"},
		{"an unknown status", gossip(func(w *wire.MembershipGossip) { w.Members[0].Status = 99 }), "status 99"},
		{"clocks of two lengths", gossip(func(w *wire.MembershipGossip) { w.VersionNodes = []uint32{0} }), "1 nodes but 0 counts"},
		{"a count for nobody", gossip(func(w *wire.MembershipGossip) { w.VersionNodes, w.VersionCounts = []uint32{1}, []uint64{1} }), "forgotten"},
		{"an age above the counter", gossip(func(w *wire.MembershipGossip) { w.Members[0].UpNumber = 4 }), "UpNumber 4, UpCounter is 0"},
		{"a bomb", stateMessage(t, &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: bomb.Bytes()}), "more than"},
		{"a broken stream", stateMessage(t, &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: []byte{1, 2}}), "unpack state"},
	} {
		if m, err := Decode(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want an error that says %q", c.name, m, err, c.want)
		}
	}
}

func stateMessage(t *testing.T, s *wire.MembershipState) []byte {
	t.Helper()
	b, err := proto.Marshal(&wire.MembershipMessage{Format: format, Body: &wire.MembershipMessage_Gossip{Gossip: s}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzDecode checks that Decode returns for any bytes, and that every message that it
// accepts can be encoded again.
func FuzzDecode(f *testing.F) {
	for _, m := range everyMessage() {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := Encode(m); err != nil {
			t.Fatalf("%v cannot be encoded again: %v", m, err)
		}
	})
}

func addr(name string, incarnation uint64) transport.Address {
	return transport.Address{Name: name, Incarnation: incarnation}
}
