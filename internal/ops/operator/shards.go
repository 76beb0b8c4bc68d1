package operator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// A Type is an entity type as one member sees it.
type Type struct {
	Kind     string   // its name
	Shards   uint32   // of the type in the cluster; 0 means the member has no shard map of the type
	Homeless []uint32 // the shards without a home, by the member's shard map
	Waiting  uint32   // calls of the member's process that wait for a home
	Held     []Shard  // by the member, in order
	Why      string   // why shards have no home, or calls wait, as far as the member knows
	Stuck    string   // which durable shards the member cannot open, why, and what to do; "" means none
	// Instances is the number of instances of a pool in the member's table, and Wanted how many it should
	// have, which only the coordinator's member knows. Both are 0 for other types.
	Instances, Wanted uint32
	Durable           bool // the member hosts the type, and it is durable
}

// A Shard is a shard as the member that holds it sees it.
type Shard struct {
	Shard    uint32 // its number: of 256 shards, 256 to 511
	State    string // as in shard.ShardState
	Entities uint32 // active or passivated
	Active   uint32 // entities with a value in memory
	Waiting  uint32 // calls that wait for the shard to open
	// Used is the number of processors that the shard uses, as in measure.Process. Older members do not
	// report it.
	Used float64
}

// A Home says which node has the shard of an entity, and why.
type Home struct {
	Shard uint32 // the number of the entity's shard
	Node  string // the name of the shard's home; "" means that the shard has none
	Epoch string // of the home
	Why   string // the coordinator's reason for the home
	// Since is when the shard got this home, by the coordinator's clock. It is zero if the shard
	// has no home, or got it before the coordinator started.
	Since time.Time
}

// A Move is a shard's move that is under way.
type Move struct {
	Kind     string
	Shard    uint32
	From, To transport.Address
	Epoch    string // of the new home
	Why      string
	Phase    string // how far the move is
	For      time.Duration
}

func (t Type) toWire() *wire.AdminType {
	w := &wire.AdminType{Kind: t.Kind, Shards: t.Shards, Homeless: t.Homeless, Waiting: t.Waiting, Stuck: t.Stuck, Why: t.Why, Instances: t.Instances, Wanted: t.Wanted, Durable: t.Durable}
	for _, s := range t.Held {
		w.Held = append(w.Held, &wire.AdminShard{Shard: s.Shard, State: s.State, Entities: s.Entities, Active: s.Active, Waiting: s.Waiting, Used: s.Used})
	}
	return w
}

func typeFromWire(w *wire.AdminType) Type {
	t := Type{
		Kind: w.GetKind(), Shards: w.GetShards(), Homeless: w.GetHomeless(), Waiting: w.GetWaiting(), Stuck: w.GetStuck(), Why: w.GetWhy(),
		Instances: w.GetInstances(), Wanted: w.GetWanted(), Durable: w.GetDurable(),
	}
	for _, s := range w.GetHeld() {
		t.Held = append(t.Held, Shard{s.GetShard(), s.GetState(), s.GetEntities(), s.GetActive(), s.GetWaiting(), number(s.GetUsed())})
	}
	return t
}

func (h Home) toWire() *wire.AdminPlace {
	if h == (Home{}) {
		return nil
	}
	return &wire.AdminPlace{Shard: h.Shard, Node: h.Node, Epoch: h.Epoch, Why: h.Why, Since: toNanos(h.Since)}
}

func homeFromWire(w *wire.AdminPlace) Home {
	h := Home{Shard: w.GetShard(), Node: w.GetNode(), Epoch: w.GetEpoch(), Why: w.GetWhy()}
	if n := w.GetSince(); n != 0 {
		h.Since = fromNanos(n)
	}
	return h
}

func (m Move) toWire() *wire.AdminMove {
	return &wire.AdminMove{
		Kind: m.Kind, Shard: m.Shard, From: toWire(m.From), To: toWire(m.To), Epoch: m.Epoch, Why: m.Why, Phase: m.Phase, Nanos: uint64(m.For),
	}
}

func moveFromWire(w *wire.AdminMove) Move {
	return Move{
		w.GetKind(), w.GetShard(), fromWire(w.GetFrom()), fromWire(w.GetTo()), w.GetEpoch(), w.GetWhy(), w.GetPhase(), time.Duration(w.GetNanos()),
	}
}
