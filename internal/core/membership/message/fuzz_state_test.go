package message

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/gossip/gossiptest"
	"github.com/shardgen/shardgen/internal/wire"
)

// FuzzGossip decodes uncompressed states, because FuzzDecode hardly gets past the compression. A
// state that is accepted can be merged with itself, and with a member's state in either order.
func FuzzGossip(f *testing.F) {
	h := gossiptest.NewHistory(3, 5)
	for range 60 {
		h.Step()
		g := h.States[h.Random.IntN(h.Joined)]
		b, err := proto.Marshal(gossipToWire(g))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	mine := h.States[0]
	f.Fuzz(func(t *testing.T, b []byte) {
		theirs, err := stateFromWire(&wire.MembershipState{Gossip: b})
		if err != nil {
			return
		}
		theirs.Founder = mine.Founder // another cluster's is never merged
		one, other := mine.Merge(theirs), theirs.Merge(mine)
		for _, g := range []*gossip.State{one, other, theirs.Merge(theirs)} {
			if err := g.Check(); err != nil {
				t.Fatalf("merged with\n%s:\n%v", gossiptest.Normal(theirs), err)
			}
		}
		for _, tomb := range mine.Tombstones {
			if _, ok := one.Member(tomb.Node); ok {
				t.Fatalf("%v came back by\n%s", tomb.Node, gossiptest.Normal(theirs))
			}
		}
		if one.RemovalCounter < mine.RemovalCounter || one.UpCounter < mine.UpCounter {
			t.Fatalf("counters fell by\n%s", gossiptest.Normal(theirs))
		}
	})
}
