package node

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// DurableShard is a hosted shard of a durable type. The embedded durablehost.Shard claims the shard
// in the store.
type DurableShard struct {
	*durablehost.Shard
	hosted      *HostedShard
	tasks       heldTasks // tasks that the present turn of a singleton has started
	LastCommits LastCommits
	retries     retries
}

// expiry returns when an entity expires if it is committed now, under the tenure t; 0 means never.
func (d *DurableShard) expiry(t *durablehost.Tenure) int64 {
	if ttl := d.hosted.Host.Desc.TTL; ttl > 0 {
		return t.Expiry(ttl)
	}
	return 0
}

func (*DurableShard) entity(e *region.Entity) *durableEntity {
	active, _ := e.Data().(*durableEntity)
	return active
}

func newDurableShard(s *HostedShard) *DurableShard {
	drv := s.driver()
	d := &DurableShard{hosted: s}
	c := durablehost.Config{
		Shard: store.Shard{Type: s.ID.Kind, Number: int(s.ID.Shard)},
		Node:  drv.Local.Name, Incarnation: drv.Local.Incarnation, Host: drv.Durable, Limits: drv.Limits,
	}
	if drv.Durable != nil {
		c.Hold = s.Host.hold
		c.Clock, c.Appends, c.Claims = drv.Durable.Clock, &drv.Durable.Appends, &drv.Durable.Claims
	}
	if drv.Config.Store != nil { // a node without a store does not start
		c.Store, c.Records = drv.Config.Store.Shards(), drv.Config.Store
	}
	if s.Host.Desc.Singleton {
		c.Alone = &durablehost.Alone{
			May:  s.mayRun,
			Lost: func(err error) { s.Host.died("its shard in the store was lost: " + err.Error()) },
		}
	}
	if e := s.Host.Desc.Events; e != nil {
		c.Journal = journalOf(e, s.Host.Desc.Shards)
	}
	c.Index = func() *durable.Index { return indexOf(&s.Host.Desc) }
	c.Sweep = sweepOf(s.Host.Desc.TTL)
	d.Shard = durablehost.New(c)
	return d
}

// placedLocked opens or closes the shard in the store after its state here has changed. The caller
// holds Mu.
func (d *DurableShard) placedLocked(opened bool) {
	switch d.hosted.Core.State() {
	case region.Open, region.Draining:
		if opened {
			d.Open(uint64(d.hosted.Core.Epoch()))
		}
	default:
		d.Close()
	}
}

// leaveTimeout bounds the time for writing the records of entities before a shard moves. For
// unwritten records, the next home reads the log.
const leaveTimeout = 5 * time.Second

// leave ends this home's tenure of a shard that moves, after the stop hooks have run. It does
// nothing if the move was given up meanwhile.
func (d *DurableShard) leave() {
	s, drv := d.hosted, d.hosted.driver()
	s.Mu.Lock()
	epoch, moves := s.Core.Epoch(), s.Core.State() == region.Draining
	s.Mu.Unlock()
	if !moves {
		return
	}
	ctx, cancel := context.WithTimeout(drv.Context, leaveTimeout)
	defer cancel()
	if err := d.Leave(ctx, uint64(epoch)); err != nil {
		drv.Limiter.Warn(drv.Logger, "shard moves without its records", d.hosted.ID.Kind, "", "shard", d.hosted.ID.String(), "err", err)
	}
}

// ready returns the activation of e if a turn may begin with it under tenure, or nil.
func (d *DurableShard) ready(e *region.Entity, tenure *durablehost.Tenure) *durableEntity {
	if a := d.entity(e); a != nil && a.tenure == tenure && a.ready && e.Value != nil && !a.expired() {
		return a
	}
	return nil
}

// errEnded means that an entity has ended, and its reminders with it.
var errEnded = errors.New("the entity has ended")

func (d *DurableShard) activate(t *turn, e *region.Entity, tenure *durablehost.Tenure) (*durableEntity, error) {
	s := d.hosted
	s.Host.lost(e)
	e.Clear()
	t.yieldLane()
	ctx, cancel := d.patience(t)
	defer cancel()
	began := s.driver().Lease.Now()
	loaded, err := loadState(ctx, &s.Host.Desc, tenure, e.ID)
	t.waitedSince(began)
	if err != nil {
		if UnreadableState(err) {
			s.Host.Unreadable.add(e.ID)
		}
		return nil, err
	}
	if !loaded.Found && t.method == wire.MethodFire {
		tenure.Passivated(e.ID)
		return nil, errEnded
	}
	if loaded.Found {
		if strayed(&s.Host.Desc, &loaded) {
			d.noteStray(e, "the state that calls saw last is lost: the recorded events give another state. Either the state was changed outside Apply (by a goroutine, or by a method that recorded other events or is marked //shard:read), or Apply has changed since")
		}
		e.SetState(loaded.State, codegen.Recovered)
	}
	a := &durableEntity{tenure: tenure, last: tenure.Seen(e.ID), expires: loaded.Expires}
	a.Driver = a
	e.SetData(&a.EntityData)
	if s.Host.Desc.Activate != nil {
		if err := tenure.Wait(ctx, a.last); err != nil { // OnActivate may tell others of these changes
			tenure.Passivated(e.ID)
			e.SetData(nil)
			e.SetState(nil, codegen.Fresh)
			return nil, err
		}
		a.woken = true
		if r := durableOf(t); r != nil {
			defer r.activating()()
		}
	}
	if err := s.activate(t, e); err != nil {
		e.Clear()
		d.lost(e)
		return nil, fmt.Errorf("%w: %w", errActivate, err)
	}
	a.ready = true
	return a, nil
}

func (d *DurableShard) events() eventTaker {
	return eventTaker{&d.hosted.Host.Desc, d.hosted.driver().ChecksTurns}
}

// begin keeps the entity's state from before OnActivate, with which the first commit compares the
// state after the turn.
func (d *DurableShard) begin(e *region.Entity, value any, unknown []byte) (err error) {
	if h := &d.hosted.Host.Desc; h.Events != nil {
		_, _ = h.Events.Take(value) // from now on its journal encodes the events that are recorded
	}
	d.entity(e).state, err = d.encode(value, unknown, 0)
	return err
}

func (d *DurableShard) encode(value any, unknown []byte, size int) (state []byte, err error) {
	h := &d.hosted.Host.Desc
	if h.AppendState == nil {
		return unknown, nil
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, PanicError("encoding the state", r)
		}
	}()
	if state, err = h.AppendState(make([]byte, 0, size), value); err != nil {
		return nil, err
	}
	return codegen.AppendUnknown(state, unknown, h.StateFields), nil
}

func (d *DurableShard) stray(e *region.Entity, state []byte) {
	if a := d.entity(e); a != nil && a.ready && !a.woken && a.tenure == d.Current() && !a.expired() && !bytes.Equal(a.state, state) {
		d.noteStray(e, "its state was changed outside its turns, by a goroutine or by a method marked //shard:read. This change is committed only if the entity is passivated gracefully, and never if the type has a journal")
	}
}

func (d *DurableShard) noteStray(e *region.Entity, why string) {
	drv, kind := d.hosted.driver(), d.hosted.ID.Kind
	drv.Limiter.error(drv.Logger, "durable state was changed outside the entity's turns", kind, "", "kind", kind, "entity", clip(e.ID), "why", why)
}

// retire commits the changes of a stop hook, unless err says that the hook or the encoding failed.
// The result is nil: the region must not keep a durable state.
func (d *DurableShard) retire(e *region.Entity, why codegen.Passivation, state []byte, err error) []byte {
	a := d.entity(e)
	if a == nil || !a.ready || err != nil || a.expired() || bytes.Equal(a.state, state) {
		return nil
	}
	failed := func(err error) {
		d.hosted.Host.passivationFailed(e, why, fmt.Errorf("the changes of OnPassivate are not in the store: %w", err))
	}
	if a.tenure != d.Current() {
		failed(durable.ErrNotOpen)
		return nil
	}
	events, err := d.events().collect(e.Value, a.state, state, false, e.ID)
	var ticket durable.Ticket
	if err == nil {
		ticket, err = a.tenure.Commit(&durable.Turn{
			Entity: e.ID, State: state, Events: events, Sum: stateSum(&d.hosted.Host.Desc, state), Expires: d.expiry(a.tenure), Form: form(&d.hosted.Host.Desc),
			Index: keysOf(&d.hosted.Host.Desc, e.Value),
		})
	}
	switch {
	case err != nil:
		failed(err)
	case why == codegen.Stopping:
		d.LastCommits.add(a.tenure, ticket, failed)
	default:
		a.tenure.Then(ticket, func(err error) {
			if err != nil {
				failed(err)
			}
		})
	}
	return nil
}

func (d *DurableShard) lost(e *region.Entity) {
	if a := d.entity(e); a != nil {
		e.SetData(nil)
		a.tenure.Passivated(e.ID)
	}
}

// runHere runs a begun turn on its local caller's goroutine. The caller gets the answer once all
// changes that the turn saw are in the log.
func (d *DurableShard) runHere(e *region.Entity, h *hereCall, exits func()) {
	s := d.hosted
	returned := false
	defer func() {
		if returned {
			return
		}
		h.ran(s, e, s.Host.methods[string(h.Method)], exited)
		s.endTurnOf(e, h.after(), s.Host.panicFailure(e.ID, string(h.Method), "runtime.Goexit"))
		exits()
	}()
	a := h.execute(s, e)
	returned = true
	h.end(e, a)
}

// mayRead reports whether a begun read-only turn may run and be answered at once: the entity's
// state is in the log, and the shard is here.
func (d *DurableShard) mayRead(e *region.Entity) bool {
	a := d.entity(e)
	return a != nil && a.ready && !a.woken && e.Value != nil && d.Has(a.tenure) && !a.expired() && a.tenure.Reached(a.last) && d.hosted.mayRunInline()
}

// checkRead returns an error if a method marked //shard:read has changed the entity, and drops the
// activation.
func (d *DurableShard) checkRead(e *region.Entity, method string) error {
	a := d.entity(e)
	if a == nil || e.Value == nil { // the shard was lost meanwhile
		return nil
	}
	state, err := d.encode(e.Value, e.State(), len(a.state))
	if err == nil {
		_, err = d.events().collect(e.Value, a.state, state, true, e.ID)
	}
	if err == nil && !bytes.Equal(state, a.state) {
		err = d.wrote(e, method)
	}
	if err != nil {
		d.drop(e)
	}
	return err
}

func (d *DurableShard) wrote(e *region.Entity, method string) error {
	return fmt.Errorf("%s/%s: %s, a method marked //shard:read, has changed the state (remove the mark)", d.hosted.ID.Kind, clip(e.ID), method)
}

// A call that waits for the store fails a little before its deadline, so that its caller still gets
// the reason. The call fails early by 1/noticePart of its remaining time, but by at most maxNotice.
const (
	noticePart = 10
	maxNotice  = 200 * time.Millisecond
)

// patience returns the turn's context with an earlier deadline, which leaves time to answer. A tell
// gets Config.CallTimeout.
func (d *DurableShard) patience(t *turn) (context.Context, context.CancelFunc) {
	if deadline, ok := t.Deadline(); ok {
		return context.WithDeadline(t, deadline.Add(-min(time.Until(deadline)/noticePart, maxNotice)))
	}
	return context.WithTimeout(t, d.hosted.driver().Config.CallTimeout)
}

func (d *DurableShard) drop(e *region.Entity) {
	d.tasks.take()
	d.hosted.Host.died("the changes of its last turn were not committed")
	d.hosted.Host.lost(e)
	e.Clear()
}

func (d *DurableShard) activateInstance(t *turn, e *region.Entity) error {
	tenure, err := d.Tenure(t)
	if err != nil {
		return err
	}
	d.tasks.take() // drop the tasks of an activation that failed
	a, err := d.activate(t, e, tenure)
	if err != nil {
		return err
	}
	h := &d.hosted.Host.Desc
	state, err := d.encode(e.Value, e.State(), len(a.state))
	if err != nil {
		return err
	}
	events, err := d.events().collect(e.Value, a.state, state, false, e.ID)
	if err != nil {
		return err
	}
	if !bytes.Equal(state, a.state) || len(events) > 0 {
		if a.last, err = tenure.Commit(&durable.Turn{Entity: e.ID, State: state, Events: events, Sum: stateSum(h, state), Form: form(h), Index: keysOf(h, e.Value)}); err != nil {
			return fmt.Errorf("the changes of OnActivate: %w", err)
		}
		a.state = state
	}
	a.woken = false
	d.tasks.release(tenure, a.last)
	return nil
}

const strayedState = "its state was changed outside a turn, and the change is undone (a task calls a method through the singleton's client, which changes and commits it)"

// strayed returns why a singleton's instance must end before another turn, or "".
func (d *DurableShard) strayed(e *region.Entity, tenure *durablehost.Tenure) string {
	in := d.hosted.Host.Instance
	if in == nil {
		return ""
	}
	a := d.entity(e)
	if a == nil || a.tenure != tenure || !a.ready || e.Value == nil {
		return "its shard was claimed again in the store"
	}
	if in.HadTasks() && d.differs(e, a) {
		return strayedState
	}
	return ""
}

func (d *DurableShard) differs(e *region.Entity, a *durableEntity) bool {
	state, err := d.encode(e.Value, e.State(), len(a.state))
	return err != nil || !bytes.Equal(state, a.state)
}

// undoStray drops and logs changes of a singleton's state that were made outside its turns. The
// singleton is about to end.
func (d *DurableShard) undoStray(e *region.Entity) {
	a := d.entity(e)
	if a != nil && a.ready && e.Value != nil && d.hosted.Host.Instance.HadTasks() && d.differs(e, a) {
		a.ready = false
		d.hosted.driver().Logger.Error("singleton's changes are lost", "kind", d.hosted.ID.Kind, "why", strayedState)
	}
}

// keptOf encodes an answer for the log.
func keptOf(a answer) []byte {
	r := durablehost.Answer{Code: uint32(a.code), Text: clipText(a.text)}
	if a.payload != nil {
		r.Payload = *a.payload
	}
	return r.Append(nil)
}

// checksTurns reports whether each turn is checked after it has run: a //shard:read method must
// have changed nothing, and a turn's events must lead to the state that the turn left. Only tests
// pay for these checks. Elsewhere a checksum only detects, when an entity is loaded, that its
// events give another state.
func checksTurns() bool {
	benchmarks := flag.Lookup("test.bench") // package testing, which this package must not import, defines it
	return invariant.Enabled || benchmarks != nil && benchmarks.Value.String() == ""
}

type durableEntity struct {
	region.EntityData
	tenure *durablehost.Tenure // the tenure under which it was activated
	state  []byte              // as of the last commit, which the log may not have yet
	last   durable.Ticket      // the ticket of its last commit
	ready  bool                // its activation is complete
	woken  bool                // OnActivate has run, and no turn has committed its changes yet
	// expires is the Unix time in milliseconds at which the entity ends; 0 means never.
	expires int64
}

func (a *durableEntity) expired() bool { return a.expires != 0 && a.tenure.Expired(a.expires) }

var errActivate = errors.New("activate")

// loadState reads an inactive entity, migrates its state and applies its events. The caller has the
// entity's turn. If loadState succeeds, the caller must later call tenure.Passivated.
func loadState(ctx context.Context, h *codegen.Host, tenure *durablehost.Tenure, id string) (durable.Loaded, error) {
	loaded, err := tenure.Load(ctx, id)
	if err != nil || !loaded.Found {
		return loaded, err
	}
	if loaded.State, err = restored(h, id, &loaded); err != nil {
		tenure.Passivated(id)
		return loaded, fmt.Errorf("%w: %w", errActivate, err)
	}
	return loaded, nil
}

// UnreadableState reports whether an error of loadState means that this program cannot read a
// stored state. It reports false if the store could not be reached, or the shard is not here.
func UnreadableState(err error) bool {
	return errors.Is(err, errActivate) || errors.Is(err, durable.ErrCorrupt) || errors.Is(err, durable.ErrNewer)
}

// StoredState returns the stored state of an inactive durable entity, and nil if the entity has
// none. The caller has the entity's turn.
func StoredState(ctx context.Context, d *durablehost.Shard, h *codegen.Host, id string) ([]byte, error) {
	tenure, err := d.Tenure(ctx)
	if err != nil {
		return nil, err
	}
	loaded, err := loadState(ctx, h, tenure, id)
	if err != nil {
		return nil, err
	}
	tenure.Passivated(id)
	if !loaded.Found {
		return nil, nil
	}
	return loaded.State, nil
}

// migrator is an entity whose directive has version=.
type migrator interface{ MigrateState(from int) error }

func form(h *codegen.Host) uint32 {
	if h.StateVersion <= 1 {
		return 0
	}
	return uint32(h.StateVersion)
}

func migrated(h *codegen.Host, id string, loaded *durable.Loaded) (state []byte, err error) {
	from, now := max(int(loaded.Form), 1), max(h.StateVersion, 1)
	switch {
	case from == now:
		return loaded.State, nil
	case from > now:
		return nil, fmt.Errorf("the state of %s/%.100s has version %d and this program knows versions up to %d: a newer program wrote it (run that program, or a later one, on this node too)",
			h.Name, id, from, now)
	}
	defer func() {
		if r := recover(); r != nil {
			state, err = nil, fmt.Errorf("%w in MigrateState: %v", ErrPanic, r)
		}
		if err != nil {
			err = fmt.Errorf("migrate the state of %s/%.100s from version %d to %d: %w (the state is kept as it is: correct MigrateState)", h.Name, id, from, now, err)
		}
	}()
	return restate(h, id, loaded.State, func(entity any) error {
		return entity.(migrator).MigrateState(from) // the generator has looked for it
	})
}

// LastCommits are the commits made by stop hooks that run because the node ends. It is safe for
// concurrent use.
type LastCommits struct {
	mu  sync.Mutex
	all []lastCommit
}

type lastCommit struct {
	tenure *durablehost.Tenure
	ticket durable.Ticket
	failed func(error)
}

func (p *LastCommits) add(tenure *durablehost.Tenure, ticket durable.Ticket, failed func(error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, lastCommit{tenure, ticket, failed})
}

// Confirm waits until all commits in p are in the log, or ctx ends.
func (p *LastCommits) Confirm(ctx context.Context) {
	p.mu.Lock()
	all := p.all
	p.all = nil
	p.mu.Unlock()
	for _, one := range all {
		if err := one.tenure.Wait(ctx, one.ticket); err != nil {
			one.failed(err)
		}
	}
}
