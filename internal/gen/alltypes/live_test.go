package alltypes

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// patience bounds how long a test waits for a condition.
const patience = time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A pair is a cluster of two nodes that host allTypes.
type pair struct {
	t      *testing.T
	broker *memory.Broker
	nodes  map[string]*shard.Node
}

// newPair starts the two nodes, a and b.
func newPair(t *testing.T, host func(*shard.Node) error) *pair {
	t.Helper()
	p := &pair{t: t, broker: memory.NewBroker(memory.Options{}), nodes: map[string]*shard.Node{}}
	for _, name := range []string{"a", "b"} {
		n := shard.New(shard.Config{
			Cluster: "allTypes", Name: name, Transport: p.broker.Transport(), Seeds: []string{"a"},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), CallTimeout: patience,
		})
		if err := host(n); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		p.nodes[name] = n
	}
	return p
}

// refs returns references to one entity from both nodes, by the node's name.
func (p *pair) refs(id Count) map[string]AllTypesRef {
	return map[string]AllTypesRef{"a": NewAllTypesClient(p.nodes["a"]).Ref(id), "b": NewAllTypesClient(p.nodes["b"]).Ref(id)}
}

// move moves all shards of allTypes to a node.
func (p *pair) move(to string) {
	p.t.Helper()
	ctx := within(p.t)
	pins := map[uint32]string{}
	for s := range uint32(16) {
		pins[16+s] = to
	}
	if err := p.nodes["a"].PinShards(ctx, "allTypes", pins); err != nil {
		p.t.Fatal(err)
	}
	p.until("all shards are at "+to, func() bool {
		for name, node := range p.nodes {
			for _, s := range node.LocalShards("allTypes") {
				if s.State != "forwarding" && !(s.State == "active" && name == to) {
					return false
				}
			}
		}
		return true // those that live nowhere yet will be placed there
	})
}

// until waits until a condition holds, and fails the test after patience.
func (p *pair) until(what string, holds func() bool) {
	p.t.Helper()
	ctx := within(p.t)
	for !holds() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("waited for this: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *pair) active() (n int) {
	for _, node := range p.nodes {
		for _, s := range node.LocalShards("allTypes") {
			n += s.Active
		}
	}
	return n
}

// TestNearEqualsFar checks on running nodes that callers at the entity's node and at the other node
// get equal values of every type. It also checks this after passivation, after a move while
// passivated, and after a move while active.
func TestNearEqualsFar(t *testing.T) {
	p := newPair(t, func(n *shard.Node) error { return HostAllTypes(n, func() *AllTypes { return &AllTypes{} }) })
	p.move("a")
	const ids = 60
	sent, kept := map[Count]Everything{}, map[Count]Everything{}
	for id := Count(1); id <= ids; id++ {
		var v Everything
		random(rand.New(rand.NewPCG(11, uint64(id))), reflect.ValueOf(&v).Elem(), 5)
		sent[id] = v
		by := []string{"a", "b"}[id%2] // one half near, the other far
		if err := p.refs(id)[by].Keep(within(t), v); err != nil {
			t.Fatalf("%d: Keep from %s: %v", id, by, err)
		}
	}
	look := func(when string) {
		t.Helper()
		for id, v := range sent {
			got := map[string]Everything{}
			for from, ref := range p.refs(id) {
				var err error
				if got[from], err = ref.Kept(within(t)); err != nil {
					t.Fatalf("%s: %d: Kept from %s: %v", when, id, from, err)
				}
			}
			if why := (comparison{}).differ(reflect.ValueOf(got["a"]), reflect.ValueOf(got["b"])); why != "" {
				t.Fatalf("%s: %d: a and b got%s", when, id, why)
			}
			if why := (comparison{arrived: true, apart: true}).differ(reflect.ValueOf(v), reflect.ValueOf(got["a"])); why != "" {
				t.Fatalf("%s: %d: sent and got%s", when, id, why)
			}
			if first, ok := kept[id]; !ok {
				kept[id] = got["a"]
			} else if why := (comparison{}).differ(reflect.ValueOf(first), reflect.ValueOf(got["b"])); why != "" {
				t.Fatalf("%s: %d: at first and now%s", when, id, why)
			}
		}
	}
	rest := func() {
		t.Helper()
		for id := range sent {
			if err := p.refs(id)["a"].Rest(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		p.until("all rest", func() bool { return p.active() == 0 })
	}
	look("at once")
	rest()
	look("after idleness")
	rest()
	p.move("b")
	look("after a move of what was idle")
	p.move("a")
	look("after a move of what was active")
}

// TestEchoOnRunningNodes checks that arguments and results of methods are equal for callers at the
// entity's node and at the other node.
func TestEchoOnRunningNodes(t *testing.T) {
	p := newPair(t, func(n *shard.Node) error { return HostAllTypes(n, func() *AllTypes { return &AllTypes{} }) })
	p.move("a")
	refs := p.refs(1)
	near, far := reflect.ValueOf(refs["a"]), reflect.ValueOf(refs["b"])
	for i := range near.NumMethod() {
		name := near.Type().Method(i).Name
		if !strings.HasPrefix(name, "Echo") {
			continue
		}
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(12, seed))
			args := []reflect.Value{reflect.ValueOf(within(t))}
			for j := 1; j < near.Method(i).Type().NumIn(); j++ {
				v := reflect.New(near.Method(i).Type().In(j)).Elem()
				random(r, v, 5)
				args = append(args, v)
			}
			call := func(f reflect.Value) []reflect.Value {
				if f.Type().IsVariadic() {
					return f.CallSlice(args)
				}
				return f.Call(args)
			}
			a, b := call(near.Method(i)), call(far.Method(i))
			last := len(a) - 1
			if !a[last].IsNil() || !b[last].IsNil() {
				t.Fatalf("%s, seed %d: errors %v near and %v far, want none", name, seed, a[last], b[last])
			}
			for j := range a[:last] {
				if why := (comparison{}).differ(a[j], b[j]); why != "" {
					t.Fatalf("%s, seed %d: near and far%s", name, seed, why)
				}
			}
		}
	}
}
