package versions

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/gen/versions/today"
	"github.com/shardgen/shardgen/internal/gen/versions/yesterday"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// A rollout is a cluster of two nodes: one runs yesterday's program, the other today's.
type rollout struct {
	t        *testing.T
	old, new *shard.Node
	after    *today.DepotClient // at the new node
}

func newRollout(t *testing.T) *rollout {
	t.Helper()
	return newRolloutFrom(t, yesterday.HostDepotAs)
}

// newRolloutFrom starts a rollout whose older program hosts depots by the function host.
func newRolloutFrom(t *testing.T, host func(n *shard.Node, path string, opts ...shard.HostOption) error) *rollout {
	t.Helper()
	broker := memory.NewBroker(memory.Options{})
	node := func(name string, seeds ...string) *shard.Node {
		return shard.New(shard.Config{
			Cluster: "versions", Name: name, Transport: broker.Transport(), Seeds: seeds,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
	}
	r := &rollout{t: t, old: node("old"), new: node("new")}
	opts := []shard.HostOption{
		shard.Supervise(func(error) shard.SupervisorAction { return shard.ActionRestart }),
		shard.RestartBackoff(0, time.Millisecond),
	}
	ok(t, "host the old", host(r.old, "github.com/shardgen/shardgen/internal/gen/versions/today", opts...))
	ok(t, "host the old parcels", yesterday.HostParcelAs(r.old, "github.com/shardgen/shardgen/internal/gen/versions/today"))
	ok(t, "host the new parcels", today.HostParcel(r.new, func() *today.Parcel { return &today.Parcel{} }))
	ok(t, "host the new", today.HostDepot(r.new, func() *today.Depot { return &today.Depot{} }, opts...))
	for _, n := range []*shard.Node{r.new, r.old} {
		if err := n.Start(within(t)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
	}
	r.after = today.NewDepotClient(r.new)
	return r
}

// move moves all shards of depots to a node.
func (r *rollout) move(to string) { r.moveType("depot", to) }

func (r *rollout) moveType(name, to string) {
	r.t.Helper()
	ctx := within(r.t)
	ok(r.t, "place", r.new.PinShards(ctx, name, map[uint32]string{2: to, 3: to}))
	for {
		stats, err := r.new.Shards(ctx, name)
		if err != nil {
			r.t.Fatal(err)
		}
		there := true // every shard that lives anywhere
		for at, shards := range stats.Nodes {
			for _, s := range shards {
				there = there && (s.State == "forwarding" || s.State == "active" && at == to)
			}
		}
		if there {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("%s has %+v", to, stats)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *rollout) get(id string) today.Picture {
	r.t.Helper()
	p, err := r.after.Ref(id).Get(within(r.t))
	ok(r.t, "Get", err)
	return p
}

// full returns a state in which every part that yesterday's program does not know is set.
func full() today.Picture {
	box := func(color string) today.Box {
		return today.Box{Wide: 1, Lid: today.Lid{High: 2, Handle: &today.Handle{Kind: color + " knob"}}, Color: color}
	}
	spare, next := box("red"), box("green")
	spare.Next = &next
	return today.Picture{
		Count: 7, Box: box("blue"), Spare: &spare,
		Slots: []today.Slot{{Free: 3}}, Named: map[string]today.Slot{"a": {Free: 4}},
		Note: "handle with care", Extra: map[string]string{"k": "v"},
	}
}

// TestUnknownFieldsAreKept moves a state that the newer program wrote to the older program, which
// changes and stores it. Back at the newer program, the fields that the older one does not know
// must be there.
func TestUnknownFieldsAreKept(t *testing.T) {
	for name, use := range map[string]func(ctx context.Context, d today.DepotRef, want *today.Picture) error{
		"untouched": func(context.Context, today.DepotRef, *today.Picture) error { return nil },
		"used": func(ctx context.Context, d today.DepotRef, want *today.Picture) error {
			_, err := d.Add(ctx)
			want.Count, want.Box.Wide, want.Spare.Wide = 8, 2, 2
			return err
		},
		"used, passivated, used": func(ctx context.Context, d today.DepotRef, want *today.Picture) error {
			for range 3 {
				if _, err := d.Add(ctx); err != nil {
					return err
				}
				if err := d.Rest(ctx); err != nil {
					return err
				}
			}
			want.Count, want.Box.Wide, want.Spare.Wide = 10, 4, 4
			return nil
		},
		"a pointer becomes nil": func(ctx context.Context, d today.DepotRef, want *today.Picture) error {
			want.Spare = nil
			return d.Discard(ctx, false)
		},
		"a pointer in it becomes nil": func(ctx context.Context, d today.DepotRef, want *today.Picture) error {
			want.Spare.Next = nil
			return d.Discard(ctx, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(t)
			ctx := within(t)
			r.move("new")
			ok(t, "Set", r.after.Ref("x").Set(ctx, full()))
			r.move("old")
			want := full()
			ok(t, "use", use(ctx, r.after.Ref("x"), &want))
			r.move("new")
			equal(t, "state", r.get("x"), want)
			r.move("old") // and once more, for what came back may be shaped otherwise
			_, err := r.after.Ref("x").Add(ctx)
			ok(t, "Add", err)
			r.move("new")
			want.Count++
			want.Box.Wide++
			if want.Spare != nil {
				want.Spare.Wide++
			}
			equal(t, "state after the second time", r.get("x"), want)
		})
	}
}

// TestUnknownStateIsKept checks the same as TestUnknownFieldsAreKept, with an older program whose
// depot has no state at all.
func TestUnknownStateIsKept(t *testing.T) {
	r := newRolloutFrom(t, func(n *shard.Node, path string, _ ...shard.HostOption) error {
		return yesterday.HostBareDepotAs(n, path)
	})
	ctx := within(t)
	r.move("new")
	ok(t, "Set", r.after.Ref("x").Set(ctx, full()))
	r.move("old")
	for range 2 {
		_, err := r.after.Ref("x").Add(ctx)
		ok(t, "Add", err)
		ok(t, "Rest", r.after.Ref("x").Rest(ctx))
	}
	r.move("new")
	equal(t, "state", r.get("x"), full())
}

// TestUnknownFieldsEnd checks that Forget, or a supervisor's restart, deletes the whole state, with
// the fields that the older program does not know.
func TestUnknownFieldsEnd(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, d today.DepotRef) error{
		"forgotten": func(ctx context.Context, d today.DepotRef) error { return d.Forget(ctx) },
		"restarted": func(ctx context.Context, d today.DepotRef) error {
			if err := d.Fail(ctx); err == nil {
				return context.Canceled
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(t)
			ctx := within(t)
			r.move("new")
			ok(t, "Set", r.after.Ref("x").Set(ctx, full()))
			r.move("old")
			_, err := r.after.Ref("x").Add(ctx)
			ok(t, "Add", err)
			ok(t, "end", end(ctx, r.after.Ref("x")))
			_, err = r.after.Ref("x").Add(ctx)
			ok(t, "Add", err)
			r.move("new")
			equal(t, "state", r.get("x"), today.Picture{Count: 1, Box: today.Box{Wide: 1}, Named: map[string]today.Slot{}, Extra: map[string]string{}})
		})
	}
}

// TestUnknownFieldsOfElements checks that unknown fields in elements of slices and maps are lost
// once the older program has written the state, as docs/guide/changing.md says.
func TestUnknownFieldsOfElements(t *testing.T) {
	r := newRollout(t)
	ctx := within(t)
	r.move("new")
	p := full()
	p.Slots[0].Tint, p.Named["a"] = "pale", today.Slot{Free: 4, Tint: "dark"}
	ok(t, "Set", r.after.Ref("x").Set(ctx, p))
	r.move("old")
	r.move("new")
	equal(t, "an entity that nobody called there", r.get("x"), p)
	r.move("old")
	_, err := r.after.Ref("x").Add(ctx)
	ok(t, "Add", err)
	r.move("new")
	got := r.get("x")
	equal(t, "slots", got.Slots, []today.Slot{{Free: 3}})
	equal(t, "named", got.Named, map[string]today.Slot{"a": {Free: 4}})
	equal(t, "note", got.Note, p.Note)
}

// TestUnknownCasesOverARollout checks that yesterday's program keeps what it does not know in an
// entity's state: cases, alone and in a list, and fields of known cases. It must refuse a call with
// an unknown case.
func TestUnknownCasesOverARollout(t *testing.T) {
	r := newRollout(t)
	ctx := within(t)
	parcel := today.NewParcelClient(r.new).Ref("x")
	want := []today.Wrapping{&today.Ribbon{Length: 3}, nil, today.Paper{Color: "red"}}
	for _, wrap := range []today.Wrapping{&today.Ribbon{Length: 7}, today.Paper{Color: "blue", Shiny: true}} {
		r.moveType("parcel", "new")
		ok(t, "Set", parcel.Set(ctx, wrap, want...))
		before, _, _, err := parcel.Get(ctx)
		ok(t, "Get", err)
		r.moveType("parcel", "old")
		_, _, _, err = parcel.Get(ctx) // yesterday's counts, so it writes the state
		ok(t, "Get at the old, which passes on what it does not know", err)
		r.moveType("parcel", "new")
		after, one, more, err := parcel.Get(ctx)
		ok(t, "Get", err)
		equal(t, "wrapping", one, wrap)
		equal(t, "wrappings", more, want)
		equal(t, "count", after, before+1)
	}
	r.moveType("parcel", "old")
	err := parcel.Set(ctx, &today.Ribbon{})
	if err == nil || shard.OutcomeOf(err) != shard.NotExecuted || !strings.Contains(err.Error(), "Wrapping: this program does not know case 2") {
		t.Errorf("Set at the old: got %v, %v, want one that says that case 2 is not known and the call did not run", err, shard.OutcomeOf(err))
	}
}
