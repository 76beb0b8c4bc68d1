// Package remembering stores the ids of remembered entities, and activates these entities again
// after a move or failure.
//
// A process has one [Memory]. It drives the cores of package remember: the Machine for ids kept by
// other members, and a StoreMachine for each type whose ids are in a store. The Memory runs on its
// own loop, so that large sets of ids do not delay heartbeats. A [Type] is one type whose entities
// are remembered. It activates these entities again, all at once or at a constant rate. A [Shard]
// remembers the entities of one shard at its home.
package remembering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/shardgen/shardgen/internal/core/region"
	"github.com/shardgen/shardgen/internal/core/remember"
	"github.com/shardgen/shardgen/internal/util/tasks"
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A Memory holds remembered ids: the ids of entities in this process's shards, and the ids that
// this process keeps for other members. It is safe for concurrent use, except for the methods Type
// and Begin, which must be called before Run.
type Memory struct {
	process Process
	loop    *tasks.Loop
	types   map[string]*Type

	// Used only on the loop.
	machine  *remember.Machine
	recorder map[string]*recorder // by name of the type, for the types whose ids are in a store
	wakeAt   time.Time
	ticket   remember.Ticket
	waiting  map[remember.Ticket]chan remember.Done
}

// Bounds of how long an activation waits until its id is copied or stored.
const (
	memberPatience = time.Second
	storePatience  = 3 * time.Second
)

// New returns an empty Memory.
func New(p Process) *Memory {
	return &Memory{process: p, loop: tasks.NewLoop(), types: map[string]*Type{}, waiting: map[remember.Ticket]chan remember.Done{}}
}

// Type adds a type whose entities are remembered.
func (m *Memory) Type(kind string, s Settings) *Type {
	t := newType(m, kind, s)
	m.types[kind] = t
	return t
}

// Begin makes the state machines of the types, but starts nothing. maxMessage is the broker's limit
// for a message, in bytes.
func (m *Memory) Begin(maxMessage int) {
	kinds := map[string]remember.Kind{}
	m.recorder = map[string]*recorder{}
	for kind, t := range m.types {
		if t.settings.Store != nil {
			m.recorder[kind] = newRecorder(m, kind, t.settings)
		} else {
			kinds[kind] = remember.Kind{Replicas: t.settings.Replicas, Max: t.settings.MaxPerShard}
		}
	}
	m.machine = remember.New(remember.Config{
		Kinds: kinds, MaxBatch: min(48<<10, maxMessage/4),
	})
}

// Run drives the state machines until stop is closed.
func (m *Memory) Run(stop <-chan struct{}) {
	m.loop.Run(stop, m.tick, func() time.Time { return m.wakeAt })
}

func (m *Memory) tick() {
	m.wakeAt = time.Time{}
	m.stepMachine(remember.Tick{})
	for _, r := range m.recorder {
		r.step(remember.Tick{})
	}
}

func (m *Memory) step(kind string, in remember.Input) {
	if r := m.recorder[kind]; r != nil {
		r.step(in)
		return
	}
	m.stepMachine(in)
}

func (m *Memory) stepMachine(in remember.Input) {
	out := m.machine.Step(time.Now(), in)
	m.due(out.WakeAt)
	for _, e := range out.Send {
		m.process.Send(e.To, e.Message)
	}
	m.finish(out.Done, out.Recalled, out.Activate)
}

func (m *Memory) due(at time.Time) {
	if !at.IsZero() && (m.wakeAt.IsZero() || at.Before(m.wakeAt)) {
		m.wakeAt = at
	}
}

func (m *Memory) finish(done []remember.Done, recalled []remember.Recollection, activate []remember.Activate) {
	for _, d := range done {
		if ch := m.waiting[d.Ticket]; ch != nil {
			delete(m.waiting, d.Ticket)
			ch <- d
		}
	}
	for _, r := range recalled {
		if len(r.Silent) > 0 {
			m.process.Log().Warn("entities may be forgotten: members that may have more ids do not answer", "shard", r.ShardID.String(),
				"remembered", r.Found, "silent", fmt.Sprint(r.Silent))
		} else if r.Found > 0 {
			m.process.Log().Debug("entities remembered", "shard", r.ShardID.String(), "entities", r.Found)
		}
	}
	for _, s := range activate {
		if t := m.types[s.Kind]; t != nil && t.shards[s.Shard] != nil {
			t.activate(t.shards[s.Shard], s.IDs)
		}
	}
}

// Message handles a message of another member.
func (m *Memory) Message(from transport.Address, body []byte) error {
	msg, err := remember.Decode(body)
	if err != nil {
		return err
	}
	m.loop.Post(func() { m.stepMachine(remember.Receive{From: from, Message: msg}) })
	return nil
}

// ViewChanged passes the members that may keep ids to the Machine for ids kept by members.
func (m *Memory) ViewChanged(v *membership.View) {
	var view remember.View
	for _, o := range v.ByAge {
		if o.Address == m.process.Self() || o.Status == membership.Down || !hostmeta.HostsAny(o.Member) {
			continue
		}
		view.Members = append(view.Members, remember.Member{
			Address: o.Address, Up: o.Status == membership.Up, Kinds: hostmeta.Kinds(o.Member),
		})
	}
	m.loop.Post(func() { m.stepMachine(view) })
}

// post passes an input about a shard to the state machine of its type, on the loop.
func (m *Memory) post(kind string, in remember.Input) {
	m.loop.Post(func() { m.step(kind, in) })
}

var errStore = errors.New("the store of remembered ids does not answer")

// add remembers an entity. It waits until the entity's id is in the store or, if the type has none,
// copied to other members. If the store takes longer than storePatience, add returns an error. If
// copying takes longer than memberPatience, it returns without an error. The caller has the
// entity's turn. fresh means that the id was not remembered before.
func (m *Memory) add(ctx context.Context, t *Type, id placement.ShardID, entity string) (fresh bool, err error) {
	done := make(chan remember.Done, 1)
	m.loop.Post(func() {
		m.ticket++
		m.waiting[m.ticket] = done
		m.step(id.Kind, remember.Add{ShardID: id, ID: entity, Ticket: m.ticket})
	})
	limit := memberPatience
	if t.settings.Store != nil {
		limit = storePatience
	}
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case d := <-done:
		if errors.Is(d.Err, remember.ErrFull) {
			d.Err = m.process.Full(d.Err)
		}
		return d.New, d.Err
	case <-patience.C:
		m.process.Count(Late)
		if t.settings.Store != nil {
			return false, fmt.Errorf("%w within %v (is the store up?)", errStore, limit)
		}
		return false, nil // the id is still being sent; there may be no other member to keep it
	case <-ctx.Done():
		return false, ctx.Err()
	case <-m.process.Context().Done():
		return false, m.process.Stopped()
	}
}

// ids returns the remembered ids that move with a shard. known is false if the shard may have more
// of them.
func (m *Memory) ids(id placement.ShardID) (ids []string, known bool) {
	type list struct {
		ids   []string
		known bool
	}
	l := ask(m, func() (l list) {
		if r := m.recorder[id.Kind]; r != nil {
			l.ids, l.known = r.machine.IDs(id)
		} else {
			l.ids, l.known = m.machine.IDs(id)
		}
		return l
	})
	return l.ids, l.known
}

// has reports whether an entity is remembered. The caller has the entity's turn.
func (m *Memory) has(id placement.ShardID, entity string) bool {
	return ask(m, func() bool {
		if r := m.recorder[id.Kind]; r != nil {
			return r.machine.Has(id, entity)
		}
		return m.machine.Has(id, entity)
	})
}

// KeptFor returns the number of ids that are kept for other members' shards.
func (m *Memory) KeptFor() int { return ask(m, func() int { return m.machine.KeptFor() }) }

// Flush waits until all ids are in their stores, but not beyond the end of ctx, and at most
// storePatience (3 s).
func (m *Memory) Flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		busy := ask(m, func() bool {
			for _, r := range m.recorder {
				if !r.machine.Idle() {
					return true
				}
			}
			return false
		})
		if !busy {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			m.process.Log().Warn("the store lacks the latest changes of remembered entities", "after", storePatience)
			return
		}
	}
}

// ask runs f on the loop and returns the result of f. If the process stops first, ask returns the
// zero value. f may then still be running, so it must not write what the caller reads.
func ask[T any](m *Memory, f func() T) (answer T) {
	answers := make(chan T, 1)
	m.loop.Post(func() { answers <- f() })
	select {
	case answer = <-answers:
	case <-m.process.Context().Done():
	}
	return answer
}

// A Process is the member that a Memory belongs to. It is safe for concurrent use.
type Process interface {
	Self() transport.Address
	Cluster() string
	Log() *slog.Logger
	// Send sends a message to a member.
	Send(to transport.Address, m remember.Message)

	// Context ends when the process stops. Stopped returns the error of a call that fails because
	// the process has stopped.
	Context() context.Context
	Stopped() error
	// Go runs f on a goroutine that the process waits for before it has stopped.
	Go(f func())

	// MayAnswer reports whether this process may answer for its shards now. WaitLease waits until it
	// may run turns, or until ctx ends or the process stops.
	MayAnswer() bool
	WaitLease(ctx context.Context) error

	// Full returns the error for an entity that cannot be remembered because its shard is full. err
	// is the core's error.
	Full(err error) error
	// Count adds one to a counter. It returns the new value, and whether to log it.
	Count(c Counter) (n uint64, tell bool)
}

// A Counter is one of the counters of a process. [Process.Count] adds one to it.
type Counter uint8

// The events that package remembering counts.
const (
	Activated        Counter = iota // remembered entities that were activated again
	ActivationFailed                // remembered entities whose activation failed
	Late                            // ids that were not stored or copied in time
	StoreFailed                     // failures of the store of remembered ids
)

// A Home runs the entities of one shard. It is safe for concurrent use.
type Home interface {
	// MayRun reports whether a turn may begin now.
	MayRun() bool
	// Ticks returns the coarse clock, which is the parameter now of region.Shard's methods.
	Ticks() uint32
	// Activate activates an entity in a turn that has begun. Before the turn ends it calls ended,
	// with an error if the activation failed.
	Activate(e *region.Entity, ended func(error))
	// EndTurn ends the entity's turn. If a call waits, the next turn begins.
	EndTurn(e *region.Entity)
}
