package message

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip/gossiptest"
	"github.com/shardgen/shardgen/internal/wire"
)

// FuzzDeflatedGossip decodes compressed states, as a stranger may send them. No state takes much
// more memory than its size allows. A state that is accepted can be sent on.
func FuzzDeflatedGossip(f *testing.F) {
	h := gossiptest.NewHistory(3, 5)
	for range 20 {
		h.Step()
		plain, err := proto.Marshal(gossipToWire(h.States[h.Random.IntN(h.Joined)]))
		if err != nil {
			f.Fatal(err)
		}
		packed, err := deflate(plain)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	bomb, err := deflate(emptyFields(gossipMembers, 400_000))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bomb)
	f.Fuzz(func(t *testing.T, b []byte) {
		state := &wire.MembershipState{Compression: wire.MembershipState_DEFLATE, Gossip: b}
		if plain, err := unpack(state); err == nil && len(plain) > unpackedLimit(len(b)) {
			t.Fatalf("%d bytes were unpacked to %d, want at most %d", len(b), len(plain), unpackedLimit(len(b)))
		}
		g, err := stateFromWire(state)
		if err != nil {
			return
		}
		if _, err := stateToWire(g); err != nil {
			t.Fatalf("an accepted state cannot be sent on: %v", err)
		}
	})
}
