package operator

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
)

func turnsToWire(r *TurnReport) *wire.AdminTurns {
	if r == nil {
		return nil
	}
	w := &wire.AdminTurns{Nanos: uint64(r.Lasted), Window: uint64(r.Window)}
	for _, m := range r.Methods {
		sent := &wire.AdminMethod{Kind: m.Kind, Method: m.Method, Failed: m.Failed}
		sent.Buckets, sent.Turns = bucketsToWire(m.Took)
		w.Methods = append(w.Methods, sent)
	}
	for _, e := range r.Entities {
		w.Entities = append(w.Entities, &wire.AdminBusy{Kind: e.Kind, Id: e.ID, Turns: e.Turns, Over: e.Over, Busy: uint64(e.Busy)})
	}
	for _, c := range r.Callers {
		w.Callers = append(w.Callers, &wire.AdminCaller{From: c.From, Kind: c.To.Kind, Id: c.To.ID, Calls: c.Calls, Over: c.Over})
	}
	for _, t := range r.Running {
		w.Running = append(w.Running, turnToWire(t))
	}
	return w
}

func turnsFromWire(w *wire.AdminTurns) *TurnReport {
	if w == nil {
		return nil
	}
	r := &TurnReport{Lasted: time.Duration(w.GetNanos()), Window: time.Duration(w.GetWindow())}
	for _, m := range w.GetMethods() {
		r.Methods = append(r.Methods, MethodTurns{Kind: m.GetKind(), Method: m.GetMethod(), Failed: m.GetFailed(), Took: bucketsFromWire(m.GetBuckets(), m.GetTurns())})
	}
	for _, e := range w.GetEntities() {
		r.Entities = append(r.Entities, BusyEntity{
			EntityID: EntityID{Kind: e.GetKind(), ID: e.GetId()}, Turns: e.GetTurns(), Over: e.GetOver(), Busy: time.Duration(e.GetBusy()),
		})
	}
	for _, c := range w.GetCallers() {
		r.Callers = append(r.Callers, BusyCaller{
			From: c.GetFrom(), To: EntityID{Kind: c.GetKind(), ID: c.GetId()}, Calls: c.GetCalls(), Over: c.GetOver(),
		})
	}
	for _, t := range w.GetRunning() {
		r.Running = append(r.Running, turnFromWire(t))
	}
	return r
}

func turnToWire(t RunningTurn) *wire.AdminRunning {
	return &wire.AdminRunning{Kind: t.Kind, Id: t.ID, Method: t.Method, From: t.From, Nanos: uint64(t.For)}
}

func turnFromWire(w *wire.AdminRunning) RunningTurn {
	turn := Turn{EntityID: EntityID{Kind: w.GetKind(), ID: w.GetId()}, Method: w.GetMethod(), From: w.GetFrom()}
	return RunningTurn{Turn: turn, For: time.Duration(w.GetNanos())}
}
