package alltypes

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestWhatCannotBeReadStaysAlive checks that an entity stays in memory if a value's own form can be
// encoded but not decoded. Once the value is corrected, the state can be stored again.
func TestWhatCannotBeReadStaysAlive(t *testing.T) {
	p := newPair(t, func(n *shard.Node) error {
		return HostAllTypes(n, func() *AllTypes { return &AllTypes{texts: Texts{Code: "unreadable"}} })
	})
	p.move("a")
	alltypes := p.refs(1)["a"]
	if _, err := alltypes.EchoCode(within(t), "x"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := alltypes.Rest(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := alltypes.EchoCode(within(t), "x"); err != nil {
			t.Fatalf("after it was passivated: %v", err)
		}
	}
	if err := alltypes.Keep(within(t), Everything{Scalars: Scalars{Int: 5}}); err != nil {
		t.Fatal(err)
	}
	if err := alltypes.Rest(within(t)); err != nil {
		t.Fatal(err)
	}
	p.until("it rests", func() bool { return p.active() == 0 })
	if v, err := alltypes.Kept(within(t)); err != nil || v.Scalars.Int != 5 {
		t.Errorf("got %d, %v, want 5", v.Scalars.Int, err)
	}
}

// TestRepair checks the error of calls to an entity whose state the program cannot decode, and the
// command that it names. An operator can list such entities, and read, replace or delete a state.
func TestRepair(t *testing.T) {
	var broken atomic.Int32 // 0: fine, 1: fails, 2: panics
	p := newPair(t, func(n *shard.Node) error {
		return n.Host(codegen.Host{
			Kind: allTypesKind(), New: func() any { return &AllTypes{} }, Dispatch: methods, SetID: setAllTypesID,
			AppendState: appendAllTypesState, StateFields: knownAllTypesState,
			DecodeState: func(entity any, b []byte) (bool, error) {
				skipped, err := decodeAllTypesState(entity, b)
				if broken.Load() != 0 && err == nil && entity.(*AllTypes).Scalars.Int == 5 {
					if broken.Load() == 2 {
						panic("no fives")
					}
					err = errors.New("no fives")
				}
				return skipped, err
			},
		})
	})
	ctx := within(t)
	if _, err := p.refs(1)["a"].Kept(ctx); err != nil { // places the shards, so that move waits for them
		t.Fatal(err)
	}
	p.move("b")
	for id := Count(1); id <= 3; id++ {
		if err := p.refs(id)["a"].Keep(ctx, Everything{Scalars: Scalars{Int: 4 + int(id)/2}}); err != nil { // 4, 5, 5
			t.Fatal(err)
		}
		if err := p.refs(id)["a"].Rest(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.until("they rest", func() bool { return p.active() == 0 })
	o, err := admin.Dial(ctx, admin.Options{Cluster: "allTypes", Transport: p.broker.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	for _, mode := range []int32{1, 2} {
		broken.Store(mode)
		for _, id := range []Count{2, 3} {
			for from, ref := range p.refs(id) {
				_, err := ref.Kept(ctx)
				if !errors.Is(err, shard.ErrActivation) || shard.OutcomeOf(err) != shard.NotExecuted ||
					!strings.Contains(err.Error(), "no fives") || !strings.Contains(err.Error(), "shardctl state allTypes") {
					t.Errorf("mode %d: %d from %s: got %v, want one that names the cause and the command", mode, id, from, err)
				}
			}
		}
		list, err := o.Unreadable(ctx, "allTypes")
		if err != nil || len(list) != 2 || list[0].ID != "2" || list[1].ID != "3" || list[0].Node.Name != "b" || !strings.Contains(list[0].Why, "no fives") {
			t.Fatalf("mode %d: Unreadable: got %+v, %v, want 2 and 3 at b", mode, list, err)
		}
	}
	p.move("a") // a state that cannot be read moves unchanged
	if _, err := p.refs(2)["b"].Kept(ctx); !errors.Is(err, shard.ErrActivation) {
		t.Errorf("after a move: got %v, want %v", err, shard.ErrActivation)
	}
	old, err := o.State(ctx, "allTypes", "2")
	if err != nil || old.Node.Name != "a" || old.Active || !strings.Contains(old.Why, "no fives") || len(old.State) == 0 {
		t.Fatalf("State: got %+v, %v, want what cannot be read, at a", old, err)
	}
	if _, err := o.SetState(ctx, "allTypes", "2", old.State); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "cannot be read either") {
		t.Errorf("SetState with the same: got %v, want a refusal", err)
	}
	six := encodedState(&AllTypes{Scalars: Scalars{Int: 6}})
	if _, err := o.SetState(ctx, "allTypes", "2", six); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SetState(ctx, "allTypes", "3", nil); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[Count]int{1: 4, 2: 6, 3: 0} {
		v, err := p.refs(id)["b"].Kept(ctx)
		if err != nil || v.Scalars.Int != want {
			t.Errorf("%d: got %d, %v, want %d", id, v.Scalars.Int, err, want)
		}
	}
	if _, err := o.SetState(ctx, "allTypes", "1", six); !errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), "the entity is active") {
		t.Errorf("SetState of an active one: got %v, want a refusal", err)
	}
	if one, err := o.State(ctx, "allTypes", "1"); err != nil || !one.Active || one.Why != "" || len(one.State) == 0 {
		t.Errorf("State of an active one: got %+v, %v", one, err)
	}
	if list, err := o.Unreadable(ctx, "allTypes"); err != nil || len(list) != 0 {
		t.Errorf("Unreadable: got %+v, %v, want none", list, err)
	}
	for kind, why := range map[string]string{"lion": "no member hosts the type lion"} {
		if _, err := o.State(ctx, kind, "1"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("State of %s: got %v, want %s", kind, err, why)
		}
	}
	if one, err := o.State(ctx, "allTypes", "99"); err != nil || one.State != nil || one.Active {
		t.Errorf("State of one that never was: got %+v, %v, want none", one, err)
	}
}
