package operator

import (
	"reflect"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/transport"
)

// FuzzDecode checks that Decode returns a request, an answer or an error for any bytes, and that
// encoding what it returns gives an equal message.
func FuzzDecode(f *testing.F) {
	node, tea := transport.Address{Name: "a", Incarnation: 1}, EntityID{Kind: "stock", ID: "tea"}
	for _, seed := range []struct {
		r *Request
		a *Answer
	}{
		{r: &Request{Command: 2, Node: node, Seeds: []string{"b"}, Force: true}},
		{r: &Request{Command: SetState, Entity: Entity{Kind: "stock", ID: "tea", State: []byte{}}}},
		{a: &Answer{Entities: []Entity{{Kind: "stock", ID: "tea", Node: node, State: []byte("x"), Why: "no"}, {Active: true}}}},
		{a: &Answer{Types: []Type{{Kind: "stock", Shards: 4, Homeless: []uint32{5}, Held: []Shard{{4, "active", 2, 1, 0, 0.5}}}}, Where: Home{Node: "a", Since: time.Unix(7, 8)}, Counters: map[string]uint64{"x": 1}}},
		{r: &Request{Command: PauseRebalancing}},
		{r: &Request{Command: Inspect, Entity: Entity{Kind: "stock", ID: "tea"}}},
		{a: &Answer{Entities: []Entity{{Kind: "stock", ID: "tea", Node: node, Bytes: 4, Mailbox: 3, Stored: true, Errors: []Failure{{"Take", "panicked", 9}}, Turn: &RunningTurn{Turn: Turn{EntityID: tea, Method: "Take", From: "b"}, For: 5}}}}},
		{a: &Answer{Result: "rebalancing is paused", View: View{Pause: Pause{"ann", time.Unix(5, 6)}}}},
		{r: &Request{Command: Place, Entity: Entity{Kind: "stock", ID: "tea"}, After: 9, Home: "a"}},
		{a: &Answer{Lines: []Line{{Seq: 3, Time: time.Unix(1, 2), Level: 4, Text: "up", Attrs: "a=b"}}, Last: 9, Moves: []Move{{"stock", 5, node, node, "1.1", "leaves", "moving", time.Second}}}},
		{a: &Answer{Minutes: someMinutes(), Last: 60, Feeds: []Feed{{"orders", 1, "orders@1", 5, 9, 2, 1, 3, "web-1", time.Unix(3, 4), "it waits"}}}},
		{a: &Answer{Turns: &TurnReport{
			Lasted: 9, Window: 4, Methods: []MethodTurns{{Kind: "stock", Method: "Take", Failed: 1, Took: []Bucket{{Number: 3, Turns: 2}, {Number: 90, Turns: 1}}}},
			Entities: []BusyEntity{{EntityID: tea, Turns: 2, Over: 1, Busy: 7}}, Callers: []BusyCaller{{From: "client a", To: tea, Calls: 3, Over: 1}},
			Running: []RunningTurn{{Turn: Turn{EntityID: tea, Method: "Take", From: "b"}, For: 5}},
		}}},
		{a: &Answer{Facts: &Fact{
			time.Unix(1, 2), time.Unix(3, 4), "v1", "p", "go1", 5, "s", true,
			[]string{"r"},
			[]Contract{{"stock", 4, []string{"Take"}, "ab12"}},
			6, 7, 8, 9, 2, true, true, "shop", 3,
			&measure.Process{Used: 0.5, Capacity: 2, GC: 0.1, Memory: 0.7, Zone: "b", Hottest: []measure.Shard{{Kind: "stock", Shard: 5, Used: 0.25}}},
			[]Finding{{"store", "Cart", "a", Fault, time.Unix(5, 6), "t", "d"}},
			[]string{"web#1"},
			2,
			[]transport.Expiry{{What: "the certificate", From: time.Unix(7, 0), Until: time.Unix(8, 0), Seen: true}},
		}}},
		{a: &Answer{Refusal: "no", View: View{Self: node, Coordinator: node, Members: []Member{{Address: node, Roles: []string{"web"}}}, Singletons: []Singleton{{Kind: "Chief", Node: node, Hosts: []transport.Address{node}}}}}},
	} {
		b, err := Encode(7, seed.r, seed.a)
		if err != nil {
			f.Fatal(err)
		}
		if _, r, a, err := Decode(b); err != nil || !reflect.DeepEqual(r, seed.r) || !reflect.DeepEqual(a, seed.a) {
			f.Fatalf("%+v %+v is decoded as %+v %+v, %v", seed.r, seed.a, r, a, err)
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
