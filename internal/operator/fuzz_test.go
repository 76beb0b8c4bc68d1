package operator

import (
	"reflect"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

// FuzzDecode: whatever comes, Decode returns one of request and answer, or an
// error, and what it returns is encoded to the same again.
func FuzzDecode(f *testing.F) {
	node := transport.Address{Name: "a", Incarnation: 1}
	for _, seed := range []struct {
		r *Request
		a *Answer
	}{
		{r: &Request{Command: 2, Node: node, Seeds: []string{"b"}, Force: true}},
		{r: &Request{Command: SetState, Entity: Entity{Kind: "stock", ID: "tea", State: []byte{}}}},
		{a: &Answer{Entities: []Entity{{Kind: "stock", ID: "tea", Node: node, State: []byte("x"), Why: "no"}, {Active: true}}}},
		{a: &Answer{Types: []Type{{Kind: "stock", Shards: 4, Homeless: []uint32{5}, Held: []Shard{{4, "active", 2, 1, 0}}}}, Place: Place{Node: "a"}, Counters: map[string]uint64{"x": 1}}},
		{a: &Answer{Refusal: "no", View: View{Self: node, Members: []Member{{Address: node, Roles: []string{"web"}}}, Singletons: []Singleton{{Kind: "Chief", Node: node, Hosts: []transport.Address{node}}}}}},
	} {
		b, err := Encode(7, seed.r, seed.a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, r, a, err := Decode(b)
		if err != nil {
			return
		}
		if (r == nil) == (a == nil) {
			t.Fatalf("decoded %v and %v, want one of them", r, a)
		}
		again, err := Encode(id, r, a)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		id2, r2, a2, err := Decode(again)
		if err != nil || id2 != id || !reflect.DeepEqual(r, r2) || !reflect.DeepEqual(a, a2) {
			t.Fatalf("decoded %v %+v %+v, then %v %+v %+v, %v", id, r, a, id2, r2, a2, err)
		}
	})
}
