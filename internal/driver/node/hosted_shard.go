package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/counting"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// HostedShard is one shard of a hosted type. It contains the Shard of package shardhost, which
// shardEnv connects to this process, and the records of failed and restarted entities.
//
// Lock order: route.Mu, then Mu, then the session's lock.
type HostedShard struct {
	shardhost.Shard
	Host       *Host
	lane       int
	words      counting.Words
	tracing    *tracing           // the driver's
	remembered *remembering.Shard // nil where entities are not remembered

	// Guarded by Mu.
	failures   map[string]failureRecord       // failures of entities that were restarted, by id
	backingOff map[*region.Entity]*time.Timer // restarted entities, and the timers that end their back-off

	Durable  *DurableShard      // of a durable type; else nil
	volatile *volatileReminders // of a type with reminders that is not durable; else nil

	unsent int // number of moves in a row that failed because a state did not encode; used by StopEntities alone
}

func (s *HostedShard) explain(c *shardhost.Call, verdict region.Verdict) string {
	switch verdict {
	case region.Overloaded:
		return s.noRoom(&c.Call).Error()
	case region.Circular:
		return shardhost.Chain(c.Links).String() + s.ID.Kind + "/" + clip(c.Entity)
	}
	return ""
}

func (s *HostedShard) driver() *Driver { return s.Host.driver }

func (s *HostedShard) runner() *TurnRunner { return s.Host.driver.runner(s.ID.Shard) }

// tell gives a tell of this process to the runner without the shard's lock. If that is impossible,
// near is false, and the caller must send the tell as an encoded call. An error means that there is
// no room.
func (s *HostedShard) tell(e *region.Entity, c *outCall) (near bool, err error) {
	most := 0
	if len(c.Args) <= region.TellBytes {
		most = s.Host.Settings.tells()
	}
	switch s.Join(e, most) {
	case region.Entered:
		return true, s.runner().offer(s, e, c)
	case region.Full:
		s.driver().refused(wire.CodeOverloaded)
		return true, &overload{cause: &noRoom{s, s.Host.Settings.tellBound(), len(c.Args)}}
	}
	return false, nil
}

// waitLease waits until turns may run here. It fails for a singleton whose own lease has ended.
func (s *HostedShard) waitLease(ctx context.Context) error {
	if err := s.driver().WaitLease(ctx); err != nil {
		return err
	}
	if in := s.Host.Instance; in != nil && !in.LeaseValid() {
		return fmt.Errorf("run %s: %w", s.ID.Kind, errNoLease)
	}
	return nil
}

func (s *HostedShard) mayRun() bool {
	return s.driver().Lease.Valid() && (s.Host.Instance == nil || s.Host.Instance.LeaseValid())
}

func (s *HostedShard) mayRunAt(now int64) bool {
	return s.driver().Lease.ValidAt(now) && (s.Host.Instance == nil || s.Host.Instance.LeaseValid())
}

func (s *HostedShard) activate(t *turn, e *region.Entity) error {
	if s.remembered == nil {
		return s.activateNow(t, e)
	}
	t.yieldLane()
	return s.remembered.Activate(t, e.ID, func() error { return s.activateNow(t, e) })
}

// Direct records whether the shard's route sends calls of this process directly to the shard.
func (s *HostedShard) Direct(on bool) {
	if s.Host.Instance != nil || !s.Host.Settings.Inline {
		return // turns of a singleton end under the lock; calls that may not run inline must queue
	}
	s.Shard.Direct(on)
}

// enqueue queues an encoded call that this process made. It queues nothing and reports false if the
// shard is not here, or if current returns false because the route now leads elsewhere. The call
// would then come after the route's Flush. An error means that there is no room for a tell.
func (s *HostedShard) enqueue(e *wire.Envelope, current func() bool) (settled bool, err error) {
	if e.Type == wire.TypeTell {
		return s.runner().enqueue(s, e, current)
	}
	drv := s.driver()
	at := time.Now()
	c := newInCall(drv, drv.Local, e, s.lane, at)
	c.Args, c.ownsArgs = append(codegen.NewArgs(), e.Payload...), true
	if s.Accept(&c.Call, at, current) {
		return true, nil
	}
	c.recycle()
	return false, nil
}

// Enqueue is enqueue for an envelope that the shard must take even if the route leads elsewhere.
func (s *HostedShard) Enqueue(e *wire.Envelope) {
	drv := s.driver()
	at := time.Now()
	if c := newInCall(drv, drv.Local, e, s.lane, at); !s.Accept(&c.Call, at, nil) {
		drv.answerCode(c, wire.CodeMoved, "")
	}
}

// MoveStep handles an envelope of the protocol that moves shards. It reports false for any other
// envelope.
func (s *HostedShard) MoveStep(from shardhost.Session, e *wire.Envelope) bool {
	if in := s.Host.Instance; in != nil {
		return s.Step(from, e, in.PredecessorOpened) // its manager decides when it opens
	}
	return s.Step(from, e, nil)
}

// Needed reports whether a leaving node must wait for the shard. It is false for a singleton's
// shard, because the manager of the singleton's instance makes the node wait.
func (s *HostedShard) Needed() bool { return s.Host.Instance == nil && s.Shard.Needed() }

// Stop runs the stop hooks of the shard's entities, each after the entity's turn. It also waits for
// turns that still run although the shard was lost.
func (s *HostedShard) Stop(ctx context.Context) {
	for ended := s.stopIdle(); ended != nil; ended = s.stopIdle() {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}

// stopIdle passivates the idle entities. If turns are running, it returns a channel that is closed
// when the next of them ends, and otherwise nil.
func (s *HostedShard) stopIdle() (ended <-chan struct{}) {
	s.releaseAll()
	s.Mu.Lock()
	idle := s.Core.Idle(^uint32(0), s.Core.Entities())
	if s.Core.WatchRunning()+len(s.Core.Orphans()) > len(idle) {
		end := make(chan struct{})
		s.OnTurnEndLocked(func() { close(end) })
		ended = end
	}
	s.Mu.Unlock()
	for _, e := range idle {
		s.passivate(e, codegen.Stopping)
		s.FinishTurn(e)
	}
	return ended
}

func (s *HostedShard) look(r *codegen.Ref) *region.Entity { return s.Core.Look(s.hashOf(r), r.ID) }

func (s *HostedShard) hashOf(r *codegen.Ref) uint64 {
	if s.Host.Desc.Hash != nil { // the reference has the hash of the user's shard function
		return region.Hash(r.ID)
	}
	return r.Hash
}

func (s *HostedShard) enter(r *codegen.Ref, note uint32) *region.Entity {
	e := s.Enter(s.hashOf(r), r.ID, note)
	if e != nil {
		setNear(r, e)
	}
	return e
}

// FinishTurn ends the entity's turn. If a call waits, the next turn begins.
func (s *HostedShard) FinishTurn(e *region.Entity) {
	now := s.driver().Clock.Load()
	if e.OfTells() {
		if r := s.runner(); r.HasAside() {
			if !r.Leave(e, now) {
				s.EndTurn(e)
			}
			return
		}
	}
	s.LeaveTurn(e, now)
}

func (s *HostedShard) lostToken(e *region.Entity) {
	if e.OfTells() {
		s.runner().Lost(e)
	}
}

// begin begins a local caller's turn. note is the method's number. since is when the caller began
// to wait for the turn, in nanoseconds after the driver's base; 0 means it did not wait.
func (s *HostedShard) begin(ctx context.Context, up *turn, e *region.Entity, method string, note uint32, since int64, noContext bool) (codegen.Turn, error) {
	ready := e.Value != nil && s.mayRunInline()
	now := int64(0) // of a call that is not timed
	if since != 0 || s.words.Due(int(note), counting.Ask) {
		now = s.driver().Lease.Now()
	}
	// An untimed call without a parent gets no trace if the driver traces few calls.
	if tr := s.tracing; tr != nil && (now != 0 || !tr.thin || ctx.Value(tr.key) != nil) {
		if trace := s.traceLocal(ctx, up, e, method, note, since, now); trace != nil {
			return s.beginTraced(trace, ctx, up, e, method, since)
		}
	}
	if noContext && ready && since == 0 {
		if now == 0 {
			return codegen.Turn{Entity: e.Value, Context: unseenTurn{e}}, nil
		}
		return codegen.Turn{Entity: e.Value, Context: &timedUnseenTurn{unseenTurn{e}, ctx, now}}, nil
	}
	t := &turn{parent: ctx, entity: e, method: method}
	if up != nil {
		t.depth = up.depth + 1
	}
	if now == 0 && !ready {
		now = s.driver().Lease.Now()
	}
	if now != 0 {
		t.parent = &timing{Context: ctx, since: since, began: now}
		t.flags.Or(timedTurn)
	}
	if !ready {
		if err := s.beginSlowly(t, method); err != nil {
			return codegen.Turn{}, err
		}
	}
	return codegen.Turn{Entity: e.Value, Context: t}, nil
}

// beginSlowly prepares a turn that cannot begin at once. An error means that the turn has ended.
func (s *HostedShard) beginSlowly(t *turn, method string) error {
	prepared := false
	var failed *failure
	defer func() { // also when a hook ends this goroutine
		if !prepared {
			t.end()
			s.endTurnOf(t.entity, t.after(), failed)
		}
	}()
	failed, err := s.prepareTurn(t, method)
	if prepared = err == nil; !prepared {
		note, _ := t.entity.Note()
		t.count(int(note), s.driver().causeOf(err), err, failed != nil)
	}
	return err
}

// prepareTurn waits for the lease and activates the entity. failed is a failed activation, for the
// supervisor.
func (s *HostedShard) prepareTurn(t *turn, method string) (failed *failure, err error) {
	t.yieldLane()
	ctx, cancel := t.parent, context.CancelFunc(func() {})
	if _, ok := ctx.Deadline(); !ok {
		ctx, cancel = context.WithTimeout(ctx, s.driver().Config.CallTimeout)
	}
	defer cancel()
	if err := s.waitLease(ctx); err != nil {
		return nil, s.Host.notRun(t.entity.ID, method, s.leaseError(err))
	}
	if t.entity.Value != nil {
		return nil, nil
	}
	if err := s.activate(t, t.entity); err != nil {
		return &failure{method: method, err: fmt.Errorf("%w: %w", ErrActivation, err)},
			s.Host.notRun(t.entity.ID, method, fmt.Errorf("%w: %w (the log of the entity's node has more)", ErrActivation, err))
	}
	if err := s.waitLease(ctx); err != nil { // the hook may have taken long
		return nil, s.Host.notRun(t.entity.ID, method, s.leaseError(err))
	}
	return nil, nil
}

// mayRunInline is mayRun, but it reads the real clock only if the coarse clock does not prove that
// the lease still lasts.
func (s *HostedShard) mayRunInline() bool {
	drv := s.driver()
	if !drv.watch.Valid(&drv.Lease) && !drv.Lease.Valid() {
		return false
	}
	return s.Host.Instance == nil || s.Host.Instance.LeaseValid()
}

func (s *HostedShard) leaseError(err error) error {
	if errors.Is(err, ErrClosed) || errors.Is(err, errNoLease) {
		return err
	}
	return fmt.Errorf("%w: %s", err, NoContact(s.driver().Local.Name))
}

func (s *HostedShard) noRoom(c *region.Call) *noRoom { return &noRoom{s, c.Full, c.Size} }

func hostedOf(e *region.Entity) *HostedShard { return e.Shard().Driver.(*HostedShard) }

// leaveTries is how often a leaving node tries to move a shard in which a state cannot be encoded.
// At the last try the shard moves without such states.
const leaveTries = 3

var errEncodeExits = fmt.Errorf("encode the state: %w: runtime.Goexit", ErrPanic)

func (s *HostedShard) mustGo() bool { return s.driver().Leaving.Load() && s.unsent >= leaveTries-1 }

func (s *HostedShard) cannotMove(why error) {
	if s.unsent++; s.unsent&(s.unsent-1) == 0 { // logged at growing intervals, because moves are tried again
		s.driver().Logger.Error("shard cannot move: the state of an entity does not encode", "err", why, "tries", s.unsent)
	}
}

// passivateAll encodes the states of entities that are stopped for a move, and then runs their stop
// hooks. It ends early if the move is given up. If a state cannot be encoded, passivateAll fails
// before any hook runs. It drops that state instead if must is set, or if the type's moves drop
// states anyway.
func (s *HostedShard) passivateAll(entities []*region.Entity, why codegen.Passivation, must bool) error {
	states := make([][]byte, len(entities))
	for i, e := range entities {
		if !s.MayStop(e) {
			return nil
		}
		var err error
		if states[i], err = s.Host.encodeState(e); err == nil || s.Host.Settings.Handoff.DropState {
			s.stray(e, states[i], err)
			continue
		}
		err = fmt.Errorf("encode the state of %s/%s: %w (correct the value that its encoder refuses)", s.ID.Kind, clip(e.ID), err)
		if !must {
			return err
		}
		s.driver().Counts.Add(stateLost)
		s.driver().Logger.Error("state lost: its node leaves and it does not encode", "kind", s.ID.Kind, "entity", clip(e.ID), "err", err)
	}
	s.unsent = 0
	for i, e := range entities {
		if !s.MayStop(e) {
			return nil
		}
		state, err := s.hookAndEncode(e, why, states[i])
		s.retire(e, why, state, err)
	}
	return nil
}

// passivate runs an entity's stop hook and keeps its state. The caller has the entity's turn. If
// the state cannot be encoded, an idle entity stays active, and an entity that must go loses its
// changes since the last encoding.
func (s *HostedShard) passivate(e *region.Entity, why codegen.Passivation) {
	state, err := s.Host.encodeState(e)
	s.stray(e, state, err)
	if err == nil {
		state, err = s.hookAndEncode(e, why, state)
	}
	s.settle(e, why, state, err)
}

func (s *HostedShard) stray(e *region.Entity, state []byte, err error) {
	if s.Durable != nil && err == nil {
		s.Durable.stray(e, state)
	}
}

// settle passivates an entity whose stop hook was run. If err is not nil, an idle entity stays
// active instead, unless err says that its hook still runs.
func (s *HostedShard) settle(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil && why == codegen.Idle && !errors.Is(err, errHookStuck) {
		s.Host.passivationFailed(e, why, err)
		return
	}
	s.retire(e, why, state, err)
}

// hookAndEncode runs an entity's stop hook and returns the entity's state after that. If the hook
// or the encoding fails, it returns the given state, which is from before the hook.
func (s *HostedShard) hookAndEncode(e *region.Entity, why codegen.Passivation, state []byte) ([]byte, error) {
	if s.Host.Desc.Passivate == nil {
		return state, nil
	}
	if err := s.Host.stopHook(e, why); err != nil {
		return state, err
	}
	after, err := s.Host.encodeState(e)
	if err != nil {
		return state, err
	}
	return after, nil
}

// retire passivates an entity whose hook has run. err, an error of the hook or the encoding, is
// only logged.
func (s *HostedShard) retire(e *region.Entity, why codegen.Passivation, state []byte, err error) {
	if err != nil {
		s.Host.passivationFailed(e, why, err)
	}
	s.Host.tally.passivations[why].Add(1)
	s.Host.tally.bytes.Add(uint64(len(state)))
	if s.Durable != nil {
		state = s.Durable.retire(e, why, state, err)
	}
	s.Host.lost(e)
	e.Value = nil
	e.SetState(state, codegen.Reactivated)
	if why == codegen.Idle {
		if s.remembered != nil {
			s.remembered.ForgetPassivated(e) // unless its shard was lost: its present home remembers it, even if that is this node again
		}
	}
	s.driver().Counts.Add(EntityPassivated)
}

func (s *HostedShard) activateNow(ctx context.Context, e *region.Entity) (err error) {
	h := s.Host
	defer func() {
		if r := recover(); r != nil {
			e.Value, err = nil, PanicError("OnActivate or the factory", r)
		}
	}()
	why := e.Why()
	if e.State() == nil {
		why = codegen.Fresh
	}
	value := h.Desc.New()
	if h.Desc.SetID != nil {
		if err := h.Desc.SetID(value, e.ID); err != nil {
			return err
		}
	}
	var unknown []byte
	if e.State() != nil {
		if unknown, err = s.Host.DecodeState(value, e.State()); err != nil {
			h.Unreadable.add(e.ID)
			return errUnreadable(&h.Desc, e.ID, err)
		}
	}
	if s.Durable != nil {
		if err := s.Durable.begin(e, value, unknown); err != nil {
			return err
		}
	}
	if h.Desc.Activate != nil {
		if err := h.Desc.Activate(ctx, value, why); err != nil {
			return err
		}
	}
	e.Value = value
	e.SetState(unknown, codegen.Reactivated)
	h.tally.activations[why].Add(1)
	h.activated()
	return nil
}

// leased waits until a remote call's turn may run. If ok is false, a is the answer.
func (s *HostedShard) leased(t *turn) (a answer, ok bool) {
	if s.mayRun() {
		return answer{}, true
	}
	t.yieldLane()
	switch err := s.waitLease(t); {
	case err == nil:
		return answer{}, true
	case errors.Is(err, errNoLease), t.encoded().cut():
		return answer{code: wire.CodeDropped}, false // the caller looks for the next instance, or the next home
	case errors.Is(err, ErrClosed):
		return answer{code: wire.CodeStopped}, false
	}
	return answer{code: wire.CodeExpired, text: NoContact(s.driver().Local.Name)}, false
}

type noRoom struct {
	shard *HostedShard
	bound region.Bound
	size  int // bytes of the call
}

func (e *noRoom) Error() string {
	s, cfg := e.shard, &e.shard.driver().Config
	bytes := func(whose string, limit int, setting string) string {
		return fmt.Sprintf("%s %s may hold %d bytes, and %d more are too many (retry later, send less at once, or raise %s)",
			whose, cfg.Name, limit, e.size, setting)
	}
	switch e.bound {
	case region.MailboxBytes:
		return bytes("its mailbox at", s.Host.Settings.MailboxBytes, "its MaxMailboxBytes")
	case region.ShardBytes:
		return bytes(fmt.Sprintf("the calls that wait in its shard %v at", s.ID), cfg.ShardBytes, "Config.Limits.ShardBytes")
	case region.NodeBytes:
		return bytes("all calls that wait at", cfg.BufferBytes, "Config.Limits.BufferBytes")
	case region.ClientBytes:
		return fmt.Sprintf("the waiting calls of one client name, or of one caller behind gateways, may hold %d bytes at %s, half of Config.Limits.BufferBytes, and %d more are too many (retry later, or send less at once)",
			region.ClientLimit(cfg.BufferBytes), cfg.Name, e.size)
	case region.ShardCalls:
		return fmt.Sprintf("its shard %v at %s is not open and already holds %d calls (retry later, or raise Config.Limits.BufferSize)", s.ID, cfg.Name, cfg.BufferSize)
	case region.MailboxCalls:
	}
	return fmt.Sprintf("its mailbox at %s already holds %d calls (retry later, or raise its MaxMailboxCalls)", cfg.Name, s.Host.Settings.MailboxCalls)
}

// endTurnOf ends a turn as Passivate, Forget or the supervisor decided. after has the turn's flags.
// failed is the turn's failure; nil means none.
func (s *HostedShard) endTurnOf(e *region.Entity, after uint32, failed *failure) {
	if failed != nil {
		s.driver().Failures.Note(operator.EntityID{Kind: s.ID.Kind, ID: e.ID}, failed.method, failed.outcome(s.driver().Config.ReadCallError), time.Now())
	}
	forget, passivate := after&forgetAfter != 0, after&passivateAfter != 0
	d := actionResume
	if failed != nil && s.Host.Settings.Decide != nil {
		d = s.Host.askSupervisor(failed, e)
	}
	if d == actionRestart || d == actionStop || forget || passivate {
		s.Mu.Lock()
		s.Core.Detach(e) // the call may be reused before the turn has ended
		s.Mu.Unlock()
		if e.OfTells() {
			s.runner().SetAside(e)
		}
	}
	switch {
	case d == actionEscalate:
		s.driver().Control.Escalate(fmt.Errorf("%w: %s/%s.%s: %w", ErrEscalated, s.ID.Kind, clip(e.ID), failed.method, failed.err))
	case d == actionRestart:
		s.restart(e)
		return
	case d == actionStop || forget:
		s.driver().Group.Go(func() { s.end(e, forget) })
		return
	case passivate && e.Value != nil:
		s.driver().Group.Go(func() {
			s.passivate(e, codegen.Idle)
			s.FinishTurn(e)
		})
		return
	}
	s.FinishTurn(e)
}

// passivated ends the turn of an idle entity whose stop hook has ended or was abandoned.
func (s *HostedShard) passivated(e *region.Entity, state []byte, err error) {
	defer s.Host.passivating.Add(-1)
	defer s.FinishTurn(e)
	s.settle(e, codegen.Idle, state, err)
}

func nearOf(r *codegen.Ref) *region.Entity { return (*region.Entity)(atomic.LoadPointer(&r.Near)) }

func setNear(r *codegen.Ref, e *region.Entity) { atomic.StorePointer(&r.Near, unsafe.Pointer(e)) }
