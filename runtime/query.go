package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A ShardState is the state of one shard at a node.
type ShardState struct {
	Kind  string // the entity type
	Shard uint32 // its number in the type: of 256 shards, 256 to 511
	// State is "active" for a shard that stays. A shard moving away is "draining", then "sent", and
	// then "forwarding" until its callers know of the move. An arriving shard is "preparing", then
	// "prepared".
	State    string
	Entities int // number of entities in the shard, active or passivated
	Active   int // number of these with a value in memory
	Waiting  int // calls that wait for the shard to open
}

// LocalShards returns, in order, the shards that this node holds, receives, or still forwards calls
// for. It returns those of the type kind, or those of all types if kind is "". After a shard has
// moved away, the node forwards its calls until every caller's node has learnt of the move, has
// left, or has sent no call for the shard to this node for 10s. LocalShards visits every entity, so
// use it for tests and diagnosis only.
func (n *Node) LocalShards(kind string) []ShardState {
	var states []ShardState
	for _, h := range n.inspectShards(kind) {
		states = append(states, stateOf(h))
	}
	return states
}

func stateOf(h coordinator.InspectedShard) ShardState {
	return ShardState{h.Kind, h.Shard, h.State.String(), int(h.Entities), int(h.Active), int(h.Waiting)}
}

// Shards are the shards of a type, or of all types, in the whole cluster.
type Shards struct {
	Nodes map[string][]ShardState // the shards at each member that hosts types, by the member's name
	// Silent are the members that did not answer in time.
	Silent []string
}

// Shards asks every member that hosts types for its shards of the type kind, or for those of all
// types if kind is "". If ctx ends before all members have answered, Shards returns the answers so
// far and the error of ctx; the field Silent then names the members that have not answered.
func (n *Node) Shards(ctx context.Context, kind string) (Shards, error) {
	c := n.control
	stats := Shards{Nodes: map[string][]ShardState{}}
	missing, heard := map[transport.Address]bool{}, map[transport.Address]bool{}
	err := inquire(ctx, c, func(id uint64) bool {
		clear(missing) // members come and go
		for _, m := range c.member.View().ByAge {
			if m.Status != membership.Down && hostmeta.HostsAny(m.Member) && !heard[m.Address] {
				missing[m.Address] = true
				c.member.SendPlacement(transport.Peer{Address: m.Address}, coordinator.Inspect{ID: id, Type: kind})
			}
		}
		return len(missing) == 0
	}, func(from transport.Address, m coordinator.Message) bool {
		if in, ok := m.(coordinator.Inspected); ok && missing[from] {
			delete(missing, from)
			heard[from] = true
			stats.Nodes[from.Name] = []ShardState{}
			for _, h := range in.Shards {
				stats.Nodes[from.Name] = append(stats.Nodes[from.Name], stateOf(h))
			}
		}
		return len(missing) == 0
	})
	switch {
	case err == nil:
		return stats, nil
	case errors.Is(err, ErrClosed), errors.Is(err, errNotJoined):
		return Shards{}, fmt.Errorf("ask for the cluster's shards: %w", err)
	}
	for _, a := range slices.SortedFunc(maps.Keys(missing), transport.Address.Compare) {
		stats.Silent = append(stats.Silent, a.Name)
	}
	return stats, fmt.Errorf("ask for the cluster's shards: %w: no answer from %v (are they up? or wait longer)", err, stats.Silent)
}

// TypeNames returns the types hosted by at least one member that is not down, sorted.
func (n *Node) TypeNames() []string {
	v := n.control.member.View()
	if v == nil {
		return nil
	}
	names := map[string]bool{}
	for _, m := range v.ByAge {
		if m.Status == membership.Down {
			continue
		}
		for _, kind := range hostmeta.Kinds(m.Member) {
			names[kind] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// A Location is the home of an entity's shard, with the reason for that home.
type Location struct {
	Kind, ID string // of the entity, as passed to Locate
	Shard    uint32 // the number of the shard of the id: of 256 shards, 256 to 511
	// Node is the shard's home in this node's table, or "" if it has none. Epoch is the epoch of
	// that home.
	Node  string
	Epoch string
	// Why is the coordinator's reason for the home, as text.
	Why string
	// Since is when the coordinator gave the shard its home, by the coordinator's clock. It is zero
	// if there is no home, or if the coordinator found this home when it started.
	Since time.Time
}

// Locate returns the home of an entity's shard, and the reason for that home. The entity need not
// be active. This node must know the type, because it hosts the type or has called it before. If
// the coordinator does not answer before ctx ends, Locate returns the error of ctx, and Why is
// empty.
func (n *Node) Locate(ctx context.Context, kind, id string) (Location, error) {
	at := Location{Kind: kind, ID: id}
	fail := func(err error) (Location, error) {
		return at, fmt.Errorf("locate %s/%s: %w", clip(kind), clip(id), err)
	}
	k := (*n.driver.Kinds.Load())[kind]
	if k == nil {
		return fail(errors.New("this node does not know the type (host it, or make a client of it first)"))
	}
	shard, err := k.ShardOf(id)
	if err != nil {
		return fail(err)
	}
	at.Shard = shard
	if e, ok := n.driver.ShardTable.Load().Type(kind).Lookup(shard); ok {
		at.Node, at.Epoch = e.Home.Name, e.Epoch.String()
	}
	question := coordinator.Explain{}
	question.Kind, question.Shard = kind, shard
	err = inquire(ctx, n.control, func(id uint64) bool {
		question.ID = id
		n.control.member.ToCoordinator(question)
		return false
	}, func(_ transport.Address, m coordinator.Message) bool {
		e, ok := m.(coordinator.Explained)
		at.Why, at.Since = e.Text, e.Since
		return ok
	})
	if err != nil {
		return fail(err)
	}
	return at, nil
}

// PinShards pins shards of a type to nodes. The keys of homes are shard numbers (see the type's
// Extractor), the values names of nodes; "" withdraws a pin. The moves begin once the view has
// converged. A pinned shard stays at its node as long as that node hosts the type; otherwise the
// type's [Allocation] places the shard.
//
// PinShards returns nil when every member that hosts types has confirmed the pins, without waiting
// for the moves. The pins then survive a change of the coordinator and restarts of members, but not
// a restart of all members at once. It may be called at any member.
func (n *Node) PinShards(ctx context.Context, kind string, homes map[uint32]string) error {
	fail := func(err error) error { return fmt.Errorf("pin shards of %s: %w", clip(kind), err) }
	var pins []coordinator.Pin
	for shard, node := range homes {
		pins = append(pins, coordinator.Pin{Shard: shard, Node: node})
	}
	slices.SortFunc(pins, func(a, b coordinator.Pin) int { return cmp.Compare(a.Shard, b.Shard) })
	if err := coordinator.CheckPins(kind, pins); err != nil {
		return fail(err)
	}
	return n.setPins(ctx, coordinator.SetPins{Type: kind, Pins: pins}, fail)
}

// SizePool asks for a number of instances of a pool. This number replaces the one that follows from
// the pool's load; 0 lets the load decide again. The pool then has the nearest number within its
// [PoolSize], but at least the number that [Survive] needs. SizePool returns nil when every member
// that hosts types has confirmed the number; it does not wait for the instances. The number
// survives as long as pins do (see [Node.PinShards]). Any member may call SizePool.
func (n *Node) SizePool(ctx context.Context, kind string, instances int) error {
	fail := func(err error) error { return fmt.Errorf("size pool %s: %w", clip(kind), err) }
	if instances < 0 || instances > placement.MaxShards {
		return fail(fmt.Errorf("%d instances: want 0 to %d", instances, placement.MaxShards))
	}
	if err := coordinator.CheckPins(kind, nil); err != nil {
		return fail(err)
	}
	return n.setPins(ctx, coordinator.SetPins{Type: kind, Count: new(uint32(instances))}, fail)
}

// MoveShard asks the coordinator to move one shard of a type to the named node. The move counts as
// rebalancing. MoveShard does not pin the shard, so the type's [Allocation] may move it again;
// LeastShards does if members then hold unequal numbers of shards. MoveShard returns nil when the
// move has begun, or if the shard is already at the node. It fails if the shard has no home, is
// moving or is pinned, if the node does not host the type, or while the members disagree about the
// view. Any member may call MoveShard.
func (n *Node) MoveShard(ctx context.Context, kind string, shard uint32, node string) error {
	fail := func(err error) error { return fmt.Errorf("move shard %d of %s: %w", shard, clip(kind), err) }
	pins := []coordinator.Pin{{Shard: shard, Node: node}}
	if err := coordinator.CheckPins(kind, pins); err != nil {
		return fail(err)
	}
	if node == "" {
		return fail(errors.New("name the node to which it should move"))
	}
	return n.setPins(ctx, coordinator.SetPins{Type: kind, Pins: pins, Once: true}, fail)
}

func (n *Node) setPins(ctx context.Context, p coordinator.SetPins, fail func(error) error) error {
	var refused string
	err := inquire(ctx, n.control, func(id uint64) bool {
		p.ID = id
		n.control.member.ToCoordinator(p)
		return false
	}, func(_ transport.Address, m coordinator.Message) bool {
		done, ok := m.(coordinator.PinsSet)
		refused = done.Reason
		return ok
	})
	switch {
	case err != nil:
		return fail(fmt.Errorf("%w: not every member has confirmed it (call again; repeating it has no effect)", err))
	case refused != "":
		return fail(errors.New(refused))
	}
	return nil
}

// Load returns the node's load. It visits every entity, which takes some milliseconds for 100,000
// entities.
func (n *Node) Load() measure.Load {
	drv := n.driver
	used := drv.Load.Last()
	l := measure.Load{
		Process:     used.Process,
		BufferBytes: drv.Budget.Used(), BufferLimit: int64(drv.Config.BufferBytes), Refused: drv.Refusals.Snapshot(),
		Faults: map[string]uint64{}, Sent: map[string]uint64{}, Received: map[string]uint64{}, Downed: n.control.member.Traffic().Downed(),
	}
	if v := n.control.member.View(); v != nil {
		l.Health = v.Health
	}
	for _, m := range n.control.member.Traffic().Messages() {
		l.Sent[m.Kind], l.Received[m.Kind] = m.Sent, m.Received
	}
	kinds := *drv.Kinds.Load()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		t := measure.Type{Kind: name, Held: drv.HeldFor(name), Shards: map[string]int{}}
		if k := drv.ShardTable.Load().Type(name); k != nil {
			t.Homeless = len(homeless(k, isPool(n, name)))
			if p := kinds[name].Pool; p != nil {
				t.Instances = p.Count()
			}
		}
		t.Wanted = n.control.member.Pools()[name]
		if i := slices.IndexFunc(used.Types, func(t node.TypeLoad) bool { return t.Kind == name }); i >= 0 {
			t.Used = used.Types[i].Used()
		}
		if h := kinds[name].Host; h != nil {
			node.LoadHosted(&t, h)
		}
		l.Types = append(l.Types, t)
	}
	found, _ := n.judge(time.Now())
	for _, f := range found {
		if f.Severity >= operator.Fault {
			l.Faults[f.Check]++
		}
	}
	for _, f := range n.feeds {
		l.Feeds = append(l.Feeds, loadFeed(f))
	}
	return l
}

// Calls returns the counts of the calls that the node has made, and of the turns that it has run, by
// method. It reads some hundred bytes for each method and visits no entity.
func (n *Node) Calls() measure.Calls { return n.driver.Calls() }

// Measure reports the node's appends, moves, reminders and frames to m until stop is called.
// Several meters may measure one node.
func (n *Node) Measure(m measure.Meter) (stop func()) {
	appends := &durablehost.Measured{} // stays empty without a store
	if d := n.driver.Durable; d != nil {
		appends = &d.Appends.Measured
	}
	return n.driver.Meters.Add(&m, appends, &n.driver.Sessions)
}
