package operator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

// A Fact has facts of the process of a member.
type Fact struct {
	Time       time.Time // by its clock, when it answered
	Started    time.Time
	Release    string // of shardgen
	Program    string // its main package and version
	Go         string
	MaxPayload int    // bytes that the broker takes
	Server     string // the broker's server that it is connected to
	Ready      bool
	Reasons    []string // of its health
	Contracts  []Contract
	Heap       uint64 // bytes
	Goroutines int
	Store      bool // it has one
	Gateway    bool // it serves one
	// StoreName begins the names of the store's streams; "" means the store is none on JetStream, or the
	// member is older and does not say.
	StoreName     string
	StoreReplicas int // with which the store creates streams; 0 means as StoreName
}

// A Contract is a type as a member's program has it.
type Contract struct {
	Kind    string
	Shards  uint32
	Methods []string // sorted
	// Hash is of the whole contract, as the generated code has it; "" means the member or its generated code
	// is older and does not say.
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
	}
	for _, c := range w.GetContracts() {
		f.Contracts = append(f.Contracts, Contract{c.GetKind(), c.GetShards(), c.GetMethods(), c.GetHash()})
	}
	return f
}
