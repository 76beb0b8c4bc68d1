package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A besides is a cluster with types placed beside each other. Its members carry out moves at once.
type besides struct {
	loaded
	types []TypeInfo
}

func newBesides(t *testing.T, nodes int, allocations ...string) *besides {
	c, err := New(Config{Self: node("n0"), Term: termOf(1)})
	if err != nil {
		t.Fatal(err)
	}
	w := &besides{loaded: loaded{t: t, c: c, now: t0}}
	for i, name := range []string{"Cart", "Item", "Stock"}[:len(allocations)] {
		shards := uint32(8)
		if name == "Item" {
			shards = 16
		}
		w.types = append(w.types, TypeInfo{Name: name, Package: "p", Shards: shards, HashName: "xxh64", Hosts: true, Tuning: Tuning{Allocation: allocations[i]}})
	}
	for i := range nodes {
		w.nodes = append(w.nodes, node(fmt.Sprintf("n%d", i)))
	}
	w.up(w.nodes...)
	for i := range w.nodes {
		w.register(i)
	}
	for _, k := range w.types {
		w.step(Receive{w.nodes[0], Ask{Type: k.Name}})
	}
	return w
}

func (w *besides) register(i int) {
	w.step(Receive{w.nodes[i], Register{Term: termOf(1), Node: w.nodes[i], Seq: 1, Types: w.types, Capacity: 1000}})
}

// up makes the given nodes Up, and the other nodes Leaving.
func (w *besides) up(nodes ...transport.Address) {
	v := View{Converged: true}
	for _, a := range w.nodes {
		m := Member{Address: a, Status: membership.Up, Hosts: true}
		if !slices.Contains(nodes, a) {
			m.Status = membership.Leaving
		}
		v.Members = append(v.Members, m)
	}
	w.step(v)
}

// together fails the test unless each shard of Stock has the same home as the shards beside it.
func (w *besides) together(when string) {
	w.t.Helper()
	homes := map[transport.Address]int{}
	for i, s := range w.c.types["Stock"].shards {
		homes[s.home]++
		for _, other := range []shard{w.c.types["Cart"].shards[i], w.c.types["Item"].shards[2*i], w.c.types["Item"].shards[2*i+1]} {
			if other.home != s.home || s.home.IsZero() {
				w.t.Errorf("%s: %v is at %v, and %v at %v", when, s.id, s.home, other.id, other.home)
			}
		}
	}
	if len(homes) < 2 {
		w.t.Errorf("%s: all shards are at %v", when, homes)
	}
}

// TestBeside: shards of a type that is beside another type have the homes of that type's shards,
// also in a chain of types and after any change of the members. No shard moves twice.
func TestBeside(t *testing.T) {
	w := newBesides(t, 3, "beside(Stock)", "beside(Cart)", "least-shards(1)")
	if w.moved > 0 {
		t.Errorf("%d shards have moved after they got their first homes", w.moved)
	}
	w.together("at first")
	w.step(Receive{w.nodes[0], SetPins{1, "Stock", []Pin{{8, w.c.types["Stock"].shards[1].home.Name}}, nil, true}})
	w.together("after a move by hand")
	var must int
	for _, k := range w.c.types {
		for _, s := range k.shards {
			must += btoi(s.home == w.nodes[2])
		}
	}
	w.moved = 0
	w.up(w.nodes[0], w.nodes[1])
	w.together("after one has left")
	if w.moved != must {
		t.Errorf("%d shards have moved, and %d had to", w.moved, must)
	}
	w.step(View{Converged: true, Members: []Member{{Address: w.nodes[0], Status: membership.Up, Hosts: true}, {Address: w.nodes[1], Status: membership.Up, Hosts: true}}})
	w.nodes = append(w.nodes[:2], node("n7"))
	w.up(w.nodes...)
	w.register(2)
	w.together("after another has come")
	v := View{Converged: true}
	for _, a := range w.nodes[1:] {
		v.Members = append(v.Members, Member{Address: a, Status: membership.Up, Hosts: true})
	}
	w.step(v)
	w.together("after one was lost")
}

// TestBesideItself: a type is placed on its own if it is beside itself, an unknown type or a type
// with more shards, or if two types are beside each other.
func TestBesideItself(t *testing.T) {
	for _, allocations := range [][]string{
		{"beside(Cart)", "beside(Item)", "beside(Stock)"},
		{"beside(Stock)", "beside(Nothing)", "beside(Cart)"},
		{"beside(Item)", "least-shards(1)", "beside(Item)"},
	} {
		w := newBesides(t, 2, allocations...)
		for _, name := range []string{"Cart", "Item", "Stock"} {
			k := w.c.types[name]
			if l := w.c.leader(k); l != nil {
				t.Errorf("%v: %s follows %s", allocations, name, l.info.Name)
			}
			at := map[transport.Address]int{}
			for _, s := range k.shards {
				at[s.home]++
			}
			if at[w.nodes[0]] != len(k.shards)/2 {
				t.Errorf("%v: the shards of %s are at %v", allocations, name, at)
			}
		}
	}
}

// TestBesideCounts: a type that is placed by load counts the load of the shards beside its own, and
// these shards move together.
func TestBesideCounts(t *testing.T) {
	w := newBesides(t, 2, "beside(Stock)", "beside(Stock)", "load-weighted")
	report := func() {
		for _, a := range w.nodes {
			l := MemberLoad{}
			for _, name := range w.c.names {
				for _, s := range w.c.types[name].shards {
					use := 0.001
					if name == "Item" && s.id.Shard < 24 { // the shards beside the first four of Stock
						use = 0.05
					}
					if s.home == a {
						l.Shards = append(l.Shards, ShardLoad{s.id, LevelOf(use)})
					}
				}
			}
			w.step(Receive{a, l})
		}
		w.now = w.now.Add(LoadInterval)
		w.step(Tick{})
	}
	pins := []Pin{}
	for i := range uint32(8) {
		pins = append(pins, Pin{8 + i, []string{"n0", "n1"}[i/4]})
	}
	w.step(Receive{w.nodes[0], SetPins{1, "Stock", pins, nil, false}})
	for i := range pins {
		pins[i].Node = ""
	}
	w.step(Receive{w.nodes[0], SetPins{2, "Stock", pins, nil, false}})
	w.together("before")
	w.moved = 0
	for range 60 {
		report()
	}
	w.together("after")
	if w.moved == 0 || w.moved%4 != 0 {
		t.Errorf("%d shards have moved, want one or two of Stock, each with three others", w.moved)
	}
	if text, _ := w.c.explain(placement.ShardID{Kind: "Stock", Shard: 8}); !strings.Contains(text, "n0 at 1.92, n1 at 0.08 of mean; makes 1.44;") {
		t.Error(text)
	}
}
