package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/measure"
)

// timing is the parent context of a local caller's turn that is timed. Its times are in nanoseconds
// after the driver's base.
type timing struct {
	context.Context       // the caller's
	since           int64 // when the caller began to wait; 0 means it did not wait
	began           int64 // when the turn began
}

// caller returns the context of the turn's local caller.
func (t *turn) caller() context.Context {
	if m, ok := t.parent.(*timing); ok {
		return m.Context
	}
	return t.parent
}

// count counts a local caller's turn that has ended with result. cause is why the turn failed. If
// ran is false, count counts a call but no turn, because the method did not run.
func (t *turn) count(number int, cause string, result error, ran bool) {
	s := t.shard()
	drv, c := s.driver(), s.Host.Kind.Counts
	m, _ := t.parent.(*timing)
	took := s.words.Usual(number, counting.Ask)
	if m != nil {
		took = time.Duration(drv.Lease.Now() - m.began)
	}
	switch {
	case result == nil && m == nil:
		s.words.Add(number, counting.Ask)
	case result == nil && m.since == 0:
		n := c.Timed(s.words, number, counting.Ask, took)
		s.spentWithin(t.up(), n, took)
		t.noteSome(n, took)
	default:
		if m != nil && ran {
			t.noteSome(1, took)
		}
		k := counting.Key{Number: number, Cause: cause}
		if ran {
			c.Turns.Add(s.ID.Shard, k, took)
			s.spentWithin(t.up(), 1, took)
		}
		if m != nil && m.since != 0 {
			waited := time.Duration(m.began - m.since)
			c.Waits.Add(s.ID.Shard, counting.Key{Number: number}, waited)
			t.up().waited(waited)
			took += waited
		}
		if k.Cause = ""; result != nil {
			k.Outcome, k.Cause = drv.outcomeOf(result), drv.causeOf(result)
		}
		c.Made.Add(s.ID.Shard, k, took)
	}
}

// made counts a call by this process that was encoded, or that could not begin. began is when the
// call began, in nanoseconds after the driver's base.
func (p invoker) made(r *codegen.Ref, method string, tell bool, began int64, err error) {
	k := p.kind
	number := k.Counts.Number(method)
	if number == 0 && (r.ID == "" || strings.HasPrefix(method, wire.OwnMethod)) {
		return
	}
	key := counting.Key{Number: number, Tell: tell}
	if err != nil {
		key.Outcome, key.Cause = k.Driver.outcomeOf(err), k.Driver.causeOf(err)
	}
	k.Counts.Made.Add(uint32(r.Hash>>k.shift), key, k.Driver.since(began))
}

// ran counts the turn of an encoded call. Calls of the runtime itself are not counted.
func (c *InCall) ran(s *HostedShard, e *region.Entity, m *hostedMethod, a answer) {
	if m == nil || m.number == 0 {
		return
	}
	t, drv := s.Host.Kind.Counts, s.driver()
	key := counting.Key{Number: m.number, Tell: c.ID == 0, Cause: a.cause(s, c.failed)}
	if c.began == 0 { // a local tell, without a clock
		s.countTold(e, m.number, key.Cause, c.timed)
		return
	}
	took := drv.since(c.began)
	t.Turns.Add(s.ID.Shard, key, took)
	s.spent(took)
	if n := drv.due(1); n > 0 {
		drv.noteTurn(c.described(e), n, took)
	}
	if c.here == nil && !c.told && !c.arrived.IsZero() {
		key.Cause = ""
		t.Waits.Add(s.ID.Shard, key, time.Duration(c.began)-c.arrived.Sub(drv.Lease.Base()))
	}
}

// countTold counts a tell of this process that has run at this process. began is when its turn
// began, in nanoseconds after the driver's base; 0 means that the tell was not timed.
func (s *HostedShard) countTold(e *region.Entity, number int, cause string, began int64) {
	c, took := s.Host.Kind.Counts, s.words.Usual(number, counting.Tell)
	if began != 0 {
		took = s.driver().since(began)
	}
	switch {
	case cause != "":
		c.Turns.Add(s.ID.Shard, counting.Key{Number: number, Tell: true, Cause: cause}, took)
		s.spent(took)
	case began != 0:
		n := c.Timed(s.words, number, counting.Tell, took)
		s.spent(time.Duration(n) * took)
		if n = s.driver().due(n); n > 0 {
			s.driver().noteTurn(s.described(e, s.Host.Kind.Counts.Name(number)), n, took)
		}
	default:
		s.words.Add(number, counting.Tell)
	}
}

// dueTold returns the present time if the next tell of this process must be timed, and otherwise 0.
func (s *HostedShard) dueTold(number int) int64 {
	if s.words.Due(number, counting.Tell) {
		return s.driver().Lease.Now()
	}
	return 0
}

// due counts n turns, the last of which has just ended. It returns how many turns the last one
// represents in the log for operators; 0 means that the last turn is not logged.
func (drv *Driver) due(n uint64) uint64 { return drv.Turns.Due(n, drv.Lease.Now()) }

func (drv *Driver) noteTurn(t operator.Turn, n uint64, took time.Duration) {
	drv.Turns.Note(t, n, took, time.Now())
}

// noteSome logs the turn for operators, if that is due. The turn represents n turns.
func (t *turn) noteSome(n uint64, took time.Duration) {
	drv := t.shard().driver()
	if n = drv.due(n); n > 0 {
		drv.noteTurn(t.described(), n, took)
	}
}

// described describes a turn whose caller is this process.
func (s *HostedShard) described(e *region.Entity, method string) operator.Turn {
	self := s.driver().Local
	from := Caller{Class: classMember, Name: self.Name, Incarnation: self.Incarnation}
	return operator.Turn{EntityID: operator.EntityID{Kind: s.ID.Kind, ID: strings.Clone(e.ID)}, Method: method, From: from.String()}
}

// cause returns why a turn failed; "" means that it did not.
func (a answer) cause(s *HostedShard, failed *failure) string {
	drv := s.driver()
	switch a.code {
	case wire.CodeOK:
		return ""
	case wire.CodeMethodError:
		if failed != nil {
			return drv.causeOf(failed.err)
		}
		return drv.causeOf(drv.Config.CallError(CallFailure{}))
	case wire.CodePanic:
		return drv.causeOf(ErrPanic)
	case wire.CodeIntercepted:
		return drv.causeOf(ErrRefused)
	case wire.CodeTooLarge:
		return drv.causeOf(ErrTooLarge)
	case wire.CodeNoResult:
		return drv.causeOf(ErrNoResult)
	}
	err := notRun(s.ID.Kind, calls.Result{Code: a.code, Text: a.text}, drv.Config.SingletonBuffer)
	if err == nil {
		err = errors.New(a.text)
	}
	return drv.causeOf(drv.Config.CallError(CallFailure{Outcome: calls.NotExecuted, Err: err}))
}

// since returns the time since began, a number of nanoseconds after the driver's base.
func (drv *Driver) since(began int64) time.Duration { return time.Duration(drv.Lease.Now() - began) }

func (drv *Driver) causeOf(err error) string { return drv.Config.Cause(err) }

// outcomeOf returns the name of the outcome of a failed call.
func (drv *Driver) outcomeOf(err error) string {
	f, ok := drv.Config.ReadCallError(err)
	if !ok {
		return calls.Unknown.String()
	}
	if f.Err == nil {
		return calls.Executed.String()
	}
	return f.Outcome.String()
}

// Calls returns the counts of all types.
func (drv *Driver) Calls() (c measure.Calls) {
	kinds := *drv.Kinds.Load()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		kinds[name].Counts.Read(&c)
	}
	return c
}

// ReportTurns returns the report on this process's turns for operators. running lists the turns that
// have not ended.
func (drv *Driver) ReportTurns(running []operator.RunningTurn) operator.TurnReport {
	r := drv.Turns.Report(time.Now(), drv.Calls().Turns, running)
	r.Lasted = drv.since(0)
	return r
}

// AddTrend adds this process's load in the interval that ends now to its load of the last hour.
func (drv *Driver) AddTrend(l *ProcessLoad) {
	drv.Trend.Add(time.Now(), l.Used, MemoryUsed(), drv.Calls())
}

// committed counts how long an answer waited for the log: from since until now.
func (s *HostedShard) committed(method string, since int64) {
	if m := s.Host.methods[method]; m != nil && m.number != 0 {
		s.Host.Kind.Counts.Commits.Add(s.ID.Shard, counting.Key{Number: m.number}, s.driver().since(since))
	}
}
