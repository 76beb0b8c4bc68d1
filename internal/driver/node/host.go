package node

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/remembering"
	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// Host is one entity type that this node hosts.
type Host struct {
	driver     *Driver
	Kind       *Kind
	Desc       codegen.Host
	Settings   Settings
	methods    map[string]*hostedMethod
	nearReads  map[string]bool // methods of a durable type that are marked //shard:read and may run on their callers' goroutines
	Shards     []HostedShard
	Instance   *singlehost.Instance // of a singleton; else nil
	Remembered *remembering.Type    // of a type whose entities are remembered; else nil
	Parts      *Parts               // of a pool; else nil

	Second     Signal // to the passivator: a second has passed
	excess     Signal // to the passivator: more entities are active than may be
	Unreadable Unreadable
	hold       *durablehost.Hold // of a durable type's reminders; nil without a store

	Stopped     atomic.Bool  // set by StopHosting: the type's shards move to other nodes
	active      atomic.Int64 // approximate number of active entities
	passivating atomic.Int64 // number of entities whose stop hooks the passivator is running

	times  []shardTime // of Shards
	tally  tally
	sample poolSample // of a pool
}

type hostedMethod struct {
	run    codegen.Method
	unseen bool // turns of the method can be an unseenTurn
	hidden bool // the method does not name its context, but its turns commit, so they cannot be an unseenTurn
	read   bool // the method is marked //shard:read
	number int  // in Kind.Counts; 0: the runtime's own method
}

// eachShard calls f for the shards of a lane; -1 means all.
func (h *Host) eachShard(lane int, f func(*HostedShard)) {
	for i := range h.Shards {
		if s := &h.Shards[i]; lane < 0 || s.lane == lane {
			f(s)
		}
	}
}

// encodeState encodes an active entity, including stored fields unknown to this program. If the
// type has no encoder, it returns the entity's stored state, which another program has written. The
// caller has the entity's turn.
func (h *Host) encodeState(e *region.Entity) (state []byte, err error) {
	return h.appendState([]byte{}, e)
}

func (h *Host) appendState(b []byte, e *region.Entity) (state []byte, err error) {
	d := &h.Desc
	if d.AppendState == nil {
		return e.State(), nil
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, PanicError("encoding the state", r)
		}
	}()
	if state, err = d.AppendState(b, e.Value); err != nil {
		return nil, err
	}
	return codegen.AppendUnknown(state, e.State(), d.StateFields), nil
}

// DecodeState decodes a state into value, an entity. unknown has the encoded fields that this
// program does not know; usually there are none. Unknown fields stay with the active entity and are
// encoded again with its state.
func (h *Host) DecodeState(value any, state []byte) (unknown []byte, err error) {
	d := &h.Desc
	if d.DecodeState == nil {
		if len(state) == 0 {
			return nil, nil
		}
		return state, nil // an older program's type has no state at all
	}
	defer func() {
		if r := recover(); r != nil {
			unknown, err = nil, PanicError("decoding the state", r)
		}
	}()
	skipped, err := d.DecodeState(value, state)
	if err != nil || !skipped {
		return nil, err
	}
	return codegen.UnknownFields(state, d.StateFields), nil
}

// stopHook runs an entity's OnPassivate on a new goroutine, because OnPassivate may never return.
// It fails if OnPassivate panicked, ended its goroutine, or did not return within StopTimeout. An
// error that OnPassivate returns is only logged.
func (h *Host) stopHook(e *region.Entity, why codegen.Passivation) error {
	if h.Desc.Passivate == nil {
		return nil
	}
	drv, id, value, limit := h.driver, e.ID, e.Value, h.Settings.StopTimeout
	ctx := newHookContext(drv.Context, time.Now().Add(limit))
	defer ctx.end()
	ended := make(chan error, 1)
	drv.Group.Go(func() {
		err := errHookExited
		defer func() { ended <- err }()
		err = h.callStopHook(ctx, id, value, why)
	})
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		return h.hookAbandoned()
	}
}

// callStopHook runs OnPassivate, and returns a panic as an error. An error of the hook is only
// logged.
func (h *Host) callStopHook(ctx context.Context, id string, value any, why codegen.Passivation) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = PanicError("OnPassivate", r)
		}
	}()
	if failed := h.Desc.Passivate(ctx, value, why); failed != nil {
		drv := h.driver
		drv.Limiter.Warn(drv.Logger, "OnPassivate failed", h.Desc.Name, "", "kind", h.Desc.Name, "entity", clip(id), "err", failed)
	}
	return nil
}

func (h *Host) hookAbandoned() error {
	h.driver.Counts.Add(hookAbandoned)
	return fmt.Errorf("%w within %v (let the hook end with its context, or raise StopTimeout)", errHookStuck, h.Settings.StopTimeout)
}

func (h *Host) passivationFailed(e *region.Entity, why codegen.Passivation, err error) {
	drv := h.driver
	drv.Limiter.error(drv.Logger, "passivation failed", h.Desc.Name, why.String(),
		"kind", h.Desc.Name, "entity", clip(e.ID), "why", why.String(), "err", err)
}

func (h *Host) died(why string) {
	if h.Instance != nil {
		h.Instance.Fail(why)
	}
}

func (h *Host) notePanic(id, method string, r any) {
	h.logPanic(id, method, r)
	h.died(fmt.Sprintf("panic in %s: %v", method, r))
}

func (h *Host) logPanic(entity, method string, r any) {
	const text = "panic in an entity's turn"
	if n, tell := h.driver.Limiter.count(text, h.Desc.Name, method); tell {
		h.driver.Logger.Error(text, "kind", h.Desc.Name, "entity", clip(entity),
			"method", method, "panic", r, "count", n, "stack", string(debug.Stack()))
	}
}

func (h *Host) panicFailure(id, method, text string) *failure {
	return &failure{method: method, err: h.driver.Config.CallError(CallFailure{Kind: h.Desc.Name, ID: id, Method: method, Text: text, Panic: true}), panics: true}
}

// failureOf returns a method's error for the supervisor, or nil if only arguments or results could
// not be encoded or decoded.
func (h *Host) failureOf(id, method string, err error) *failure {
	switch err := err.(type) { //nolint:errorlint // only the value itself counts
	case *panicked:
		return h.panicFailure(id, method, err.Error())
	case *codegen.ArgumentsError, *codegen.ResultsError:
		return nil
	}
	return &failure{method: method, err: err}
}

func (h *Host) notRun(id, method string, err error) error {
	return h.driver.Config.CallError(CallFailure{Kind: h.Desc.Name, ID: id, Method: method, Outcome: calls.NotExecuted, Err: err})
}

// CountActive counts the active entities anew. The running number is inexact, because the loss of a
// shard removes entities without subtracting them.
func (h *Host) CountActive() {
	n := 0
	for i := range h.Shards {
		s := &h.Shards[i]
		s.Mu.Lock()
		n += s.Core.Live()
		s.Mu.Unlock()
	}
	h.active.Store(int64(n))
}

// Holds reports whether any shard of the type is here, or calls for such a shard wait here.
func (h *Host) Holds() bool {
	for i := range h.Shards {
		s := &h.Shards[i]
		if o, ok := s.Held(); ok && (o.State != coordinator.Forwarding || s.Holds()) {
			return true
		}
	}
	return false
}

// lost is called before an entity loses its value: the entity no longer counts as active, and its
// activation in the store ends.
func (h *Host) lost(e *region.Entity) {
	if e.Value != nil {
		h.active.Add(-1)
		if h.Desc.Pool {
			h.Parts.renew((*shardEnv)(hostedOf(e)).part())
		}
	}
	if d := hostedOf(e).Durable; d != nil {
		d.lost(e)
	}
}

// mayPassivate reports whether this node may passivate entities: the node is not closed and its
// lease is valid, so no other node runs the entities.
func (h *Host) mayPassivate() bool { return !h.driver.Closed() && h.driver.Lease.Valid() }

func (h *Host) activated() {
	if n := h.active.Add(1); h.Settings.MaxActive > 0 && n > int64(h.Settings.MaxActive) {
		h.excess.Notify()
	}
}

func (h *Host) askSupervisor(failed *failure, e *region.Entity) (d Action) {
	defer func() {
		if r := recover(); r != nil {
			d = actionResume
			h.logPanic(e.ID, failed.method, fmt.Sprintf("the supervisor: %v", r))
		}
	}()
	if d = h.Settings.Decide(failed.err); d != actionResume {
		h.driver.Counts.Add(entitySupervised)
		if n, tell := h.driver.Limiter.count("supervisor decides "+d.String(), h.Desc.Name, failed.method); tell || d == actionEscalate {
			h.driver.Logger.Warn("supervisor decides", "kind", h.Desc.Name, "entity", clip(e.ID), "decision", d.String(), "err", failed.err, "count", n)
		}
	}
	return d
}

// StuckShards returns a text about the durable shards of the type that were placed here and have
// not opened for too long: the cause and remedy for the first, and the number of the others. ""
// means that there is none.
func (h *Host) StuckShards(now time.Time) string {
	if !h.Desc.Durable {
		return ""
	}
	text, more := "", 0
	h.eachShard(-1, func(s *HostedShard) {
		st, ok := s.Durable.Stuck(now)
		switch {
		case !ok:
		case text == "":
			text = fmt.Sprintf("durable shard %v has not opened for %v: %s", s.ID, st.For, st.Why)
		default:
			more++
		}
	})
	if more > 0 {
		text += fmt.Sprintf("; and %d more shards of %s", more, h.Desc.Name)
	}
	return text
}

// NewHost returns the host of a type, with its shards.
func NewHost(drv *Driver, k *Kind, desc codegen.Host, settings Settings) (*Host, error) {
	h := &Host{
		driver: drv, Kind: k, Desc: desc, Settings: settings,
		Second: newSignal(), excess: newSignal(),
	}
	h.tally.refusals, h.tally.meters, h.tally.kind = &drv.Refusals, &drv.Meters, desc.Name
	if desc.New == nil || desc.Dispatch == nil {
		return nil, fmt.Errorf("host %s: incomplete description (run go generate again?)", desc.Name)
	}
	if settings.Inline && len(settings.Intercept) == 0 {
		h.nearReads = desc.Reads
	}
	limits := region.Limits{
		Mailbox: settings.MailboxCalls, Waiting: drv.Config.BufferSize, Handoff: settings.Handoff,
		MailboxBytes: settings.MailboxBytes, ShardBytes: drv.Config.ShardBytes, Budget: drv.Budget,
	}
	if desc.Singleton {
		limits.Lead = codegen.SingletonID
	}
	if settings.Remembering != nil {
		r := *settings.Remembering
		r.Store, r.Shards, r.HashName, r.Locate = drv.Config.Store, k.Shards, k.Desc.HashName, k.locate
		h.Remembered = drv.Memory.Type(desc.Name, r)
	}
	cfg := &shardhost.Config{
		Kind: k.name, Self: drv.Local.Address, CallTimeout: drv.Config.CallTimeout, HandoffTimeout: drv.Config.HandoffTimeout,
		Drops: settings.Handoff.DropState, Settles: !desc.Singleton,
		Clock: &drv.Clock, Watch: &h.tally,
	}
	h.methods = make(map[string]*hostedMethod, len(desc.Dispatch))
	for name, run := range desc.Dispatch {
		unnamed := desc.NoContext[name] && len(settings.Intercept) == 0
		h.methods[name] = &hostedMethod{run: run, unseen: unnamed && !desc.Durable, hidden: unnamed && desc.Durable, read: desc.Reads[name], number: k.Counts.Number(name)}
	}
	if desc.Durable {
		h.methods[wire.MethodDead] = &hostedMethod{run: codegen.Run(func(any, context.Context) error { return nil }), hidden: true}
	}
	if k.reminds() {
		if h.driver.Durable != nil {
			h.hold = durablehost.NewHold(h.driver.Durable, desc.Name)
		}
		maps.Copy(h.methods, builtins())
	}
	h.Shards, h.times = make([]HostedShard, k.Shards), make([]shardTime, k.Shards)
	for i := range h.Shards {
		id := placement.ShardID{Kind: desc.Name, Shard: k.Shards + uint32(i)}
		initShard(&h.Shards[i], h, id, cfg, limits)
		if desc.Durable {
			h.Shards[i].Durable = newDurableShard(&h.Shards[i])
		} else if k.reminds() {
			h.Shards[i].volatile = &volatileReminders{shard: &h.Shards[i]}
		}
	}
	if desc.Singleton {
		h.Instance = singlehost.NewInstance(&h.Shards[0].Shard, (*singletonHome)(&h.Shards[0]))
		cfg.Keeps = h.Instance.KeepLocked
	}
	if desc.Pool {
		h.Parts = NewParts(drv, len(h.Shards), h.runInstance)
	}
	return h, nil
}

func initShard(s *HostedShard, h *Host, id placement.ShardID, cfg *shardhost.Config, l region.Limits) {
	s.Host, s.lane = h, h.driver.LaneOf(id.Shard)
	s.Init(id, (*shardEnv)(s), cfg, l)
	s.Core.Driver, s.words, s.tracing = s, h.Kind.Counts.Words(id.Shard), h.driver.tracing
	if h.Remembered != nil {
		s.remembered = h.Remembered.Shard(&s.Shard, (*rememberedHome)(s))
	}
}
