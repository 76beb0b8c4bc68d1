package operator

import (
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/eventlog"
	"github.com/shardgen/shardgen/internal/turnwatch"
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

func (a *Answer) linesToWire(to *wire.AdminAnswer) {
	for _, l := range a.Lines {
		to.Lines = append(to.Lines, &wire.AdminLine{
			Seq: l.Seq, Time: uint64(l.Time.UnixNano()), Level: int32(l.Level), Text: l.Text, Attrs: l.Attrs,
		})
	}
	to.Last = a.Last
}

func (a *Answer) linesFromWire(w *wire.AdminAnswer) {
	for _, l := range w.GetLines() {
		a.Lines = append(a.Lines, eventlog.Line{
			Seq: l.GetSeq(), Time: fromNanos(l.GetTime()), Level: slog.Level(l.GetLevel()), Text: l.GetText(), Attrs: l.GetAttrs(),
		})
	}
	a.Last = w.GetLast()
}

func fromNanos(n uint64) time.Time { return time.Unix(0, int64(n)) }

// toNanos is the reverse of fromNanos, but 0 for the zero time.
func toNanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func turnsToWire(r *turnwatch.Report) *wire.AdminTurns {
	if r == nil {
		return nil
	}
	w := &wire.AdminTurns{Nanos: uint64(r.Lasted)}
	for _, m := range r.Methods {
		w.Methods = append(w.Methods, &wire.AdminMethod{
			Kind: m.Kind, Method: m.Method, Turns: m.Turns, Failed: m.Failed, Busy: uint64(m.Busy), Longest: uint64(m.Longest),
		})
	}
	for _, e := range r.Entities {
		w.Entities = append(w.Entities, &wire.AdminBusy{Kind: e.Kind, Id: e.ID, Turns: e.Turns, Over: e.Over, Busy: uint64(e.Busy)})
	}
	for _, c := range r.Callers {
		w.Callers = append(w.Callers, &wire.AdminCaller{From: c.From, Kind: c.To.Kind, Id: c.To.ID, Calls: c.Calls, Over: c.Over})
	}
	for _, l := range r.Types {
		t := &wire.AdminLatency{Kind: l.Kind}
		for _, b := range l.Buckets {
			t.Buckets, t.Turns = append(t.Buckets, b.Number), append(t.Turns, b.Turns)
		}
		w.Types = append(w.Types, t)
	}
	for _, t := range r.Running {
		w.Running = append(w.Running, turnToWire(t))
	}
	return w
}

func turnsFromWire(w *wire.AdminTurns) *turnwatch.Report {
	if w == nil {
		return nil
	}
	r := &turnwatch.Report{Lasted: time.Duration(w.GetNanos())}
	for _, m := range w.GetMethods() {
		r.Methods = append(r.Methods, turnwatch.Method{
			Kind: m.GetKind(), Method: m.GetMethod(), Turns: m.GetTurns(), Failed: m.GetFailed(),
			Busy: time.Duration(m.GetBusy()), Longest: time.Duration(m.GetLongest()),
		})
	}
	for _, e := range w.GetEntities() {
		r.Entities = append(r.Entities, turnwatch.Busy{
			Entity: turnwatch.Entity{Kind: e.GetKind(), ID: e.GetId()}, Turns: e.GetTurns(), Over: e.GetOver(), Busy: time.Duration(e.GetBusy()),
		})
	}
	for _, c := range w.GetCallers() {
		r.Callers = append(r.Callers, turnwatch.Caller{
			From: c.GetFrom(), To: turnwatch.Entity{Kind: c.GetKind(), ID: c.GetId()}, Calls: c.GetCalls(), Over: c.GetOver(),
		})
	}
	for _, t := range w.GetTypes() {
		l := turnwatch.Latency{Kind: t.GetKind()}
		for i := range min(len(t.GetBuckets()), len(t.GetTurns())) {
			l.Buckets = append(l.Buckets, turnwatch.Bucket{Number: t.GetBuckets()[i], Turns: t.GetTurns()[i]})
		}
		r.Types = append(r.Types, l)
	}
	for _, t := range w.GetRunning() {
		r.Running = append(r.Running, turnFromWire(t))
	}
	return r
}

func turnToWire(t turnwatch.Running) *wire.AdminRunning {
	return &wire.AdminRunning{Kind: t.Kind, Id: t.ID, Method: t.Method, From: t.From, Nanos: uint64(t.For), Earlier: t.Earlier}
}

func turnFromWire(w *wire.AdminRunning) turnwatch.Running {
	turn := turnwatch.Turn{Entity: turnwatch.Entity{Kind: w.GetKind(), ID: w.GetId()}, Method: w.GetMethod(), From: w.GetFrom()}
	return turnwatch.Running{Turn: turn, For: time.Duration(w.GetNanos()), Earlier: w.GetEarlier()}
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
