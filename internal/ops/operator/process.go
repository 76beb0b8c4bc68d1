package operator

import (
	"math"
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/transport"
)

// A Fact is what a member tells operators about its process.
type Fact struct {
	Time       time.Time // by its clock, when it answered
	Started    time.Time
	Release    string // of shardgen
	Program    string // its main package and version
	Go         string
	MaxPayload int    // the broker's limit of a message, in bytes
	Server     string // the broker's server that the process is connected to
	Ready      bool
	Reasons    []string // why it is not ready
	Contracts  []Contract
	Heap       uint64 // bytes
	Goroutines int
	// Memory is what the Go runtime takes of the system, in bytes, and MemoryLimit is GOMEMLIMIT; 0
	// means that the member has none, or is too old to report it.
	Memory, MemoryLimit uint64
	Procs               int  // GOMAXPROCS
	Store               bool // the process has a store
	Gateway             bool // the process serves a gateway
	// StoreName is the prefix of the names of the store's streams; "" means that the store is not
	// on JetStream, or the member is too old to report the name.
	StoreName     string
	StoreReplicas int // of streams that the store creates; 0 means the same as "" in StoreName
	// Load is the processor time of its last interval; nil means that the member is too old to report it.
	Load *measure.Process
	// Findings are what the member finds at its process and in the cluster.
	Findings []Finding
	// Clients are the processes outside the cluster with which the member has sessions, as name#incarnation,
	// sorted: at most [MaxClients] of the ClientCount.
	Clients     []string
	ClientCount int
	// Expiries are its certificates and credentials that have an end.
	Expiries []transport.Expiry
}

// MaxClients bounds the clients that a member names.
const MaxClients = 1000

// A Contract is what a member's program says about an entity type.
type Contract struct {
	Kind    string
	Shards  uint32
	Methods []string // sorted
	// Hash is the hash of the type's whole contract in the generated code; "" means that the member
	// or its generated code is too old to report a hash.
	Hash string
}

func (f *Fact) toWire() *wire.AdminFacts {
	if f == nil {
		return nil
	}
	w := &wire.AdminFacts{
		Time: uint64(f.Time.UnixNano()), Started: uint64(f.Started.UnixNano()), Release: f.Release, Program: f.Program, Go: f.Go,
		MaxPayload: uint64(f.MaxPayload), Server: f.Server, Ready: f.Ready, Reasons: f.Reasons, Heap: f.Heap,
		Goroutines: uint32(f.Goroutines), Store: f.Store, Gateway: f.Gateway,
		StoreName: f.StoreName, StoreReplicas: uint32(f.StoreReplicas),
		Memory: f.Memory, MemoryLimit: f.MemoryLimit, Procs: uint32(f.Procs),
		Findings: findingsToWire(f.Findings), Clients: f.Clients, ClientCount: uint32(f.ClientCount),
		Load: loadToWire(f.Load), Expiries: expiriesToWire(f.Expiries),
	}
	for _, c := range f.Contracts {
		w.Contracts = append(w.Contracts, &wire.AdminContract{Kind: c.Kind, Shards: c.Shards, Methods: c.Methods, Hash: c.Hash})
	}
	return w
}

func factsFromWire(w *wire.AdminFacts) *Fact {
	if w == nil {
		return nil
	}
	f := &Fact{
		Time: fromNanos(w.GetTime()), Started: fromNanos(w.GetStarted()), Release: w.GetRelease(), Program: w.GetProgram(), Go: w.GetGo(),
		MaxPayload: int(w.GetMaxPayload()), Server: w.GetServer(), Ready: w.GetReady(), Reasons: w.GetReasons(), Heap: w.GetHeap(),
		Goroutines: int(w.GetGoroutines()), Store: w.GetStore(), Gateway: w.GetGateway(),
		StoreName: w.GetStoreName(), StoreReplicas: int(w.GetStoreReplicas()),
		Memory: w.GetMemory(), MemoryLimit: w.GetMemoryLimit(), Procs: int(w.GetProcs()),
		Findings: findingsFromWire(w.GetFindings()), Clients: w.GetClients(), ClientCount: int(w.GetClientCount()),
		Load: loadFromWire(w.GetLoad()), Expiries: expiriesFromWire(w.GetExpiries()),
	}
	for _, c := range w.GetContracts() {
		f.Contracts = append(f.Contracts, Contract{c.GetKind(), c.GetShards(), c.GetMethods(), c.GetHash()})
	}
	return f
}

func expiriesToWire(all []transport.Expiry) (w []*wire.AdminExpiry) {
	for _, e := range all {
		w = append(w, &wire.AdminExpiry{What: e.What, From: toNanos(e.From), Until: toNanos(e.Until), Seen: e.Seen})
	}
	return w
}

func expiriesFromWire(w []*wire.AdminExpiry) (all []transport.Expiry) {
	for _, e := range w {
		all = append(all, transport.Expiry{What: e.GetWhat(), From: fromNanos(e.GetFrom()), Until: fromNanos(e.GetUntil()), Seen: e.GetSeen()})
	}
	return all
}

func loadToWire(l *measure.Process) *wire.AdminLoad {
	if l == nil {
		return nil
	}
	w := &wire.AdminLoad{Used: l.Used, Capacity: l.Capacity, Gc: l.GC, Memory: l.Memory, Zone: l.Zone}
	for _, s := range l.Hottest {
		w.Hottest = append(w.Hottest, &wire.AdminShardLoad{Kind: s.Kind, Shard: s.Shard, Used: s.Used})
	}
	return w
}

func loadFromWire(w *wire.AdminLoad) *measure.Process {
	if w == nil {
		return nil
	}
	l := &measure.Process{Used: number(w.GetUsed()), Capacity: number(w.GetCapacity()), GC: number(w.GetGc()), Memory: number(w.GetMemory()), Zone: w.GetZone()}
	for _, s := range w.GetHottest() {
		l.Hottest = append(l.Hottest, measure.Shard{Kind: s.GetKind(), Shard: s.GetShard(), Used: number(s.GetUsed())})
	}
	return l
}

// number returns v, or 0 if v is negative, infinite or NaN.
func number(v float64) float64 {
	if !(v >= 0 && v <= math.MaxFloat64) { // also for NaN
		return 0
	}
	return v
}
