package message

import (
	"bytes"
	"compress/flate"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/wire"
)

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// emptyFields returns n empty fields of bytes with a number below 16.
func emptyFields(number byte, n int) []byte {
	return bytes.Repeat([]byte{number<<3 | 2, 0}, n)
}

// field returns a field of bytes with a number below 16.
func field(number byte, b []byte) []byte {
	out := []byte{number<<3 | 2}
	for n := len(b); ; n >>= 7 {
		if n < 0x80 {
			out = append(out, byte(n))
			break
		}
		out = append(out, byte(n)|0x80)
	}
	return append(out, b...)
}

// TestSmallMessagesTakeLittleMemory checks that a message with false counts is refused before
// memory is allocated for the elements that it claims.
func TestSmallMessagesTakeLittleMemory(t *testing.T) {
	packed := func(plain []byte) []byte {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return stateMessage(t, &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: b.Bytes()})
	}
	plain := func(b []byte) []byte { return stateMessage(t, &wire.MembershipState{Gossip: b}) }
	member := field(gossipAddresses, []byte{0x0a, 1, 'a'})
	for _, c := range []struct {
		name string
		b    []byte
		most uint64 // bytes
		want string
	}{
		{"eight million empty members in 16 kB", packed(emptyFields(gossipMembers, 8_000_000)), 8 << 20, "unpack state"},
		{"members without addresses", packed(emptyFields(gossipMembers, 500_000)), 8 << 20, "addresses"},
		{"more members than addresses", packed(append(member, emptyFields(gossipMembers, 4_000)...)), 8 << 20, "4000 members for 1 addresses"},
		{"empty addresses", plain(emptyFields(gossipAddresses, 500_000)), 8 << 20, "addresses, or members"},
		{"observers", packed(emptyFields(gossipRows, 4_000)), 8 << 20, "4000 observers for 0 addresses"},
		{"tombstones", packed(emptyFields(gossipTombstones, 4_000)), 8 << 20, "4000 tombstones for 0 addresses"},
		{"clocks", packed(field(gossipVersionNodes, make([]byte, 1_000_000))), 8 << 20, "addresses, or members"},
		{"roles of one member", packed(field(gossipMembers, emptyFields(memberRoles, 500_000))), 8 << 20, "roles, descriptions and records"},
		{"descriptions of one member", packed(field(gossipMembers, emptyFields(memberMeta, 500_000))), 8 << 20, "roles, descriptions and records"},
		{"records of one observer", packed(field(gossipRows, emptyFields(rowRecords, 500_000))), 8 << 20, "roles, descriptions and records"},
		{"as many records as pass", packed(append(emptyFields(gossipAddresses, 1), field(gossipRows, emptyFields(rowRecords, freeElements))...)), 8 << 20, "node name is empty"},
		{"seeds", append([]byte{8, 1}, field(messageHello, emptyFields(helloSeeds, 400_000))...), 1 << 20, "more than 1024 seeds"},
		{"descriptions of one that joins", append([]byte{8, 1}, field(messageJoin, emptyFields(joinMeta, 400_000))...), 1 << 20, "more than 4096 roles"},
	} {
		var err error
		used := allocated(func() { _, err = Decode(c.b) })
		t.Logf("%s: %d bytes took %d", c.name, len(c.b), used)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that says %q", c.name, err, c.want)
		}
		if used > c.most {
			t.Errorf("%s: %d bytes took %d bytes of memory, want at most %d", c.name, len(c.b), used, c.most)
		}
	}
}

// TestWhatIsSentCanBeRead checks that a state is never compressed further than its receivers
// accept.
func TestWhatIsSentCanBeRead(t *testing.T) {
	g := gossip.Preformed([]gossip.Member{
		{Address: addr("a", 1), Meta: []gossip.KeyValue{{Key: "k", Value: strings.Repeat("x", 2<<20)}}},
		{Address: addr("b", 2)},
	})
	b, err := Encode(Gossip{1, g})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b); err != nil {
		t.Errorf("a state of %d bytes is refused by its receiver: %v", len(b), err)
	}
	g.Members[0].Meta = make([]gossip.KeyValue, maxElements+1)
	if _, err := Encode(Gossip{1, g}); err == nil {
		t.Error("a state with too many descriptions was encoded, and no receiver accepts it")
	}
}

// TestLargeClustersFitTheBounds checks that ten thousand members with ten descriptions each,
// and as many tombstones, are within the bounds.
func TestLargeClustersFitTheBounds(t *testing.T) {
	w := &wire.MembershipGossip{Seen: make([]byte, 10_000/8)}
	for i := range 20_000 {
		w.Addresses = append(w.Addresses, &wire.MembershipAddress{Name: "worker", Incarnation: uint64(i)*0x9e3779b97f4a7c15 + 1})
		if i >= 10_000 {
			w.Tombstones = append(w.Tombstones, &wire.MembershipTombstone{Address: uint32(i), Number: uint64(i)})
			continue
		}
		m := &wire.MembershipMember{Address: uint32(i), Status: wire.MembershipMember_UP, UpNumber: uint32(i + 1), Roles: []string{"host"}}
		for _, k := range "abcdefghij" {
			m.Meta = append(m.Meta, &wire.MembershipKeyValue{Key: "kind " + string(k), Value: time.Hour.String()})
		}
		w.Members = append(w.Members, m)
		w.VersionNodes, w.VersionCounts = append(w.VersionNodes, uint32(i)), append(w.VersionCounts, uint64(i))
	}
	plain, err := proto.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := deflate(plain)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, packed %d", len(plain), len(packed))
	if err := checkState(plain, len(packed)); err != nil {
		t.Error(err)
	}
	if len(plain) > unpackedLimit(len(packed)) {
		t.Errorf("%d bytes, packed %d, are above the limit %d", len(plain), len(packed), unpackedLimit(len(packed)))
	}
}
