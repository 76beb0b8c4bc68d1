package durablehost

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// A Process is the usual [Host]: it logs the events that operators should see, and accesses the
// store's records of the coordinator's terms and of durable types.
type Process struct {
	Cluster string
	Store   store.Backend
	Ctx     context.Context // ends with the process; it is not the context of a call
	Spawn   func(func())    // implements Host.Go
	// Send implements Host.Tell.
	Send func(ctx context.Context, from store.Shard, tells []durable.Tell, then func(tells []durable.Tell, arrived bool))
	// LookAt implements Host.Look. If it is nil, no reminders run.
	LookAt func(t *Tenure, entities []string)
	// GivenUp is called with each tell that is given up.
	GivenUp func(from store.Shard, tell durable.Tell)
	Log     *slog.Logger
	Clock   *Clock  // clock of all its shards
	Appends Appends // appends of all its shards
	Claims  Claims  // claims of all its shards

	untrimmed atomic.Uint64 // how often a log could not be trimmed
}

var _ Host = (*Process)(nil)

// Context returns the context that ends with the process.
func (p *Process) Context() context.Context { return p.Ctx }

// Go runs f unless the process has ended.
func (p *Process) Go(f func()) { p.Spawn(f) }

// Tell sends a shard's tells with Send.
func (p *Process) Tell(ctx context.Context, from store.Shard, tells []durable.Tell, then func(tells []durable.Tell, arrived bool)) {
	p.Send(ctx, from, tells, then)
}

// Look runs due reminders of a shard's entities.
func (p *Process) Look(t *Tenure, entities []string) {
	if p.LookAt != nil {
		p.LookAt(t, entities)
	}
}

// Event logs a tenure's event; GivenUp gets dead letters.
func (p *Process) Event(t *Tenure, e durable.Event) {
	log := p.Log.With("shard", t.Shard().String(), "epoch", durable.EpochText(t.Epoch()))
	switch {
	case e.Kind == durable.Opened:
		log.Debug("durable shard opened", "position", e.Position)
	case e.Kind == durable.Resent:
		log.Error("the store has lost acknowledged appends; they were appended again from memory", "appends", e.N)
	case e.Kind == durable.Orphaned:
		log.Error("the store has lost appends that it had acknowledged to older homes; a checkpoint writes their entities from memory", "appends", e.N)
	case e.Kind == durable.Untrimmed:
		if n := p.untrimmed.Add(1); n&(n-1) == 0 { // the first, second, fourth, eighth and so on
			log.Warn("the store does not trim logs, so they grow; trimming is tried again", "err", e.Err, "count", n)
		}
	case e.Kind == durable.DeadLetter:
		p.GivenUp(t.Shard(), e.Tell)
	case e.Kind == durable.Ended && e.Err != nil:
		log.Error("durable shard cannot be opened; it is tried again", "err", e.Err)
	case e.Kind == durable.Ended && e.Epoch == t.Epoch():
		log.Warn("durable shard is given up and claimed again: another process has its epoch, or its log lacks entries that this home needs")
	case e.Kind == durable.Ended && e.Epoch != 0:
		log.Warn("another home has claimed the durable shard", "met", durable.EpochText(e.Epoch))
	}
}

// Bounds of requests for the records of terms and types. try bounds one attempt, pause separates
// attempts, and one of logEach failures is logged.
const (
	try     = 5 * time.Second
	pause   = 250 * time.Millisecond
	logEach = 40
)

// Above raises the term recorded in the store to at least the given one, so that the next
// coordinator begins with a term above the given one. Above retries until it succeeds, and returns
// the recorded term. If the process ends first, it returns the given term.
func (p *Process) Above(term uint32) (last uint32) {
	for n := 0; p.Ctx.Err() == nil; n++ {
		ctx, cancel := context.WithTimeout(p.Ctx, try)
		last, err := RaiseTerm(ctx, p.Store, p.Cluster, term)
		cancel()
		if err == nil {
			return last
		}
		if n%logEach == 0 && !errors.Is(err, store.ErrConflict) && p.Ctx.Err() == nil {
			p.Log.Warn("the record of the coordinator's terms could not be raised; it is tried again", "err", err)
		}
		select {
		case <-p.Ctx.Done():
		case <-time.After(pause):
		}
	}
	return term
}

// LastTerm returns the highest term in the store's record. It returns 0 if the store does not
// answer; the caller then asks again later.
func (p *Process) LastTerm() uint32 {
	ctx, cancel := context.WithTimeout(p.Ctx, try)
	defer cancel()
	term, err := LastTerm(ctx, p.Store, p.Cluster)
	if err != nil {
		return 0
	}
	return term
}

// TakeTerm returns the term for a coordinator that begins, and the term that was recorded until
// then: see NextTerm. It retries until it succeeds or the process ends.
func (p *Process) TakeTerm(atLeast uint32) (term, before uint32, err error) {
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(p.Ctx, try)
		term, before, err = NextTerm(ctx, p.Store, p.Cluster, atLeast)
		cancel()
		if err == nil || p.Ctx.Err() != nil {
			return term, before, err
		}
		if n%logEach == 0 && !errors.Is(err, store.ErrConflict) {
			p.Log.Warn("the coordinator waits for its term: shards that are lost or move get no home until the store answers", "err", err)
		}
		select {
		case <-p.Ctx.Done():
			return 0, 0, p.Ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Check returns an error if a durable type differs from its record in the store: see [CheckType].
func (p *Process) Check(ctx context.Context, kind string, shards uint32, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	return CheckType(ctx, p.Store, kind, Type{Cluster: p.Cluster, Shards: shards, Hash: hash})
}
