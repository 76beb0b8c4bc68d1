package node

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/runner"
	"github.com/shardgen/shardgen/internal/wire"
)

// TurnRunner is one of this process's runners, with memory for its tells' calls.
type TurnRunner struct {
	runner.Runner
	told toldCalls
}

// Run runs the turn t or, if t has no call, one tell of a turn that several tells share. It reports
// whether this goroutine still has the run token afterwards.
func (r *TurnRunner) Run(t *runner.Turn, args []byte) bool {
	s := hostedOf(t.Entity)
	if t.Call == nil {
		return r.runTold(s, t.Entity, t.Method, args, &r.Token)
	}
	return Inbound(&t.Call.Call).runQueued(s, t.Entity, &r.Token, &r.told)
}

// RunAside runs a tell that joined a turn of e, and was set aside because that turn goes on without
// the run token.
func (r *TurnRunner) RunAside(e *region.Entity, tell runner.Aside) {
	r.runTold(hostedOf(e), e, tell.Method, tell.Args, nil)
}

// Emptied frees the calls of completed tells for reuse. idle means that the runner has nothing to
// run.
func (r *TurnRunner) Emptied(idle bool) { r.told.collect(idle) }

// offer gives the runner a tell that has joined the turn of e. An error means that there is no
// room.
func (r *TurnRunner) offer(s *HostedShard, e *region.Entity, c *outCall) error {
	if r.Offer(runner.Turn{Entity: e, Method: c.Method}, c.Args) {
		return nil
	}
	s.Unjoin(e)
	s.driver().refused(wire.CodeOverloaded)
	return &overload{cause: &noRoom{s, region.NodeBytes, len(c.Args)}}
}

func (r *TurnRunner) runTold(s *HostedShard, e *region.Entity, name string, args []byte, token *runner.Token) bool {
	if e.Lost() {
		s.driver().loseTell(s.ID.Kind, e.ID, name) // the shard was lost behind an earlier tell of the turn
		s.FinishTurn(e)
		return true
	}
	method := s.Host.methods[name]
	if method == nil || e.Value == nil || !s.mayRunInline() {
		return newToldCall(s, e, name, args).runQueued(s, e, token, nil)
	}
	return runTell(s, method, e, name, args, token)
}

// newToldCall returns a call for a tell that must wait. It copies the arguments, because the batch
// with the arguments may be reused before the tell runs.
func newToldCall(s *HostedShard, e *region.Entity, name string, args []byte) *InCall {
	c := &InCall{lane: s.lane}
	c.Method, c.Args, c.Tell = wire.BytesOf(name), slices.Clone(args), true
	c.Entity, c.Sender, c.Driver = e.ID, s.driver().Local, c
	return c
}

func (r *TurnRunner) enqueue(s *HostedShard, e *wire.Envelope, current func() bool) (settled bool, err error) {
	drv := s.driver()
	c := r.told.take()
	args, at := append(c.Args, e.Payload...), drv.lately()
	if len(s.Host.Settings.Intercept) > 0 || len(e.Info) > 0 {
		at = time.Now() // for Info.Arrived and traces
	}
	c.fill(drv, drv.Local, e, s.lane, at)
	c.Args, c.told = args, true
	entity, v := s.Deliver(&c.Call, at, current)
	switch v {
	case region.Overloaded:
		full := s.noRoom(&c.Call.Call)
		r.told.giveBack(c)
		drv.refused(wire.CodeOverloaded)
		return true, &overload{cause: full}
	case region.Moved:
		r.told.giveBack(c)
		return false, nil
	}
	return s.Accepted(&c.Call, entity, v), nil
}

// toldCalls keeps calls for reuse by waiting tells of one runner. It is safe for concurrent use,
// except for keep.
type toldCalls struct {
	mu    sync.Mutex
	spare []*InCall

	done []*InCall // completed calls that are not in spare yet; used only by the goroutine with the run token
}

// maxSpare bounds the calls kept for tells, and maxSpareArgs the kept buffer of each in bytes.
const (
	maxSpare     = 1 << 12
	maxSpareArgs = 2 << 10
)

// take returns an empty call, possibly with capacity in Args.
func (t *toldCalls) take() (c *InCall) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.spare) - 1
	if last < 0 {
		return new(InCall)
	}
	c, t.spare = t.spare[last], t.spare[:last]
	return c
}

func (t *toldCalls) giveBack(c *InCall) {
	c.empty()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.spare) < maxSpare {
		t.spare = append(t.spare, c)
	}
}

func (t *toldCalls) keep(c *InCall) {
	if len(t.done) >= maxSpare {
		return
	}
	c.empty()
	t.done = append(t.done, c)
}

// fewSpare is the number of calls kept for an idle runner.
const fewSpare = 64

// collect makes kept calls available to the method take. If shrink is set, it frees half of the
// spare calls, but keeps fewSpare.
func (t *toldCalls) collect(shrink bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spare = append(t.spare, t.done[:min(len(t.done), maxSpare-len(t.spare))]...)
	clear(t.done)
	t.done = t.done[:0]
	if shrink {
		n := min(len(t.spare), max(len(t.spare)/2, fewSpare))
		clear(t.spare[n:])
		t.spare = t.spare[:n]
	}
}

// runTell runs and ends a tell's begun turn. It reports whether this goroutine still has the run
// token.
func runTell(s *HostedShard, m *hostedMethod, e *region.Entity, name string, args []byte, b *runner.Token) bool {
	var t *encodedTurn
	run := b.Enter()
	if !m.unseen {
		t = &encodedTurn{run: run, era: s.driver().Turning.now.Load().era}
		t.turn.parent, t.turn.entity, t.turn.method = t, e, name
	}
	failed := invokeTold(t, m, e, name, args, run, s.dueTold(m.number))
	after, kept := t.finish(), run.Leave()
	if !kept {
		s.lostToken(e)
	}
	s.endTurnOf(e, after, failed)
	return kept
}

// invokeTold runs the method of a tell, without results. It returns an error for the supervisor.
func invokeTold(t *encodedTurn, m *hostedMethod, e *region.Entity, name string, args []byte, run runner.Hold, began int64) (failed *failure) {
	s, returned := hostedOf(e), false
	defer func() {
		if returned {
			return
		}
		s.countTold(e, m.number, s.driver().causeOf(ErrPanic), began)
		if r := recover(); r != nil {
			s.Host.notePanic(e.ID, name, r)
			failed = s.Host.panicFailure(e.ID, name, fmt.Sprint(r))
			return
		}
		// runtime.Goexit ends this goroutine, so another one must take over the run
		// token.
		run.HandOver()
		s.lostToken(e)
		s.Host.died("runtime.Goexit in " + name)
		s.endTurnOf(e, t.finish(), s.Host.panicFailure(e.ID, name, "runtime.Goexit"))
	}()
	_, err := m.run(t.seen(e), e.Value, args, nil)
	returned = true
	if err != nil {
		s.countTold(e, m.number, s.driver().causeOf(err), began)
		return s.Host.failureOf(e.ID, name, err)
	}
	s.countTold(e, m.number, "", began)
	return nil
}
