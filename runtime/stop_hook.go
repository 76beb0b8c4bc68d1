package shard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// errHookStuck: the hook goes on with the entity, which nobody else may touch.
var errHookStuck = errors.New("OnPassivate does not return")

// errHookExited: the hook, or the state's encoder, ended its goroutine.
var errHookExited = fmt.Errorf("%w in OnPassivate or in encoding the state: runtime.Goexit", ErrPanic)

// stopHook runs OnPassivate on a goroutine of its own, for it may never return, or
// end its goroutine. Its error is only logged: the entity goes anyway.
func (s *hostedShard) stopHook(e *region.Entity, why codegen.Passivation) error {
	if s.host.desc.Passivate == nil {
		return nil
	}
	pl, id, value, limit := s.plane(), e.ID, e.Value, s.host.settings.stopTimeout
	ctx := newHookContext(pl.ctx, time.Now().Add(limit))
	defer ctx.end()
	ended := make(chan error, 1)
	pl.wg.Go(func() {
		err := errHookExited
		defer func() { ended <- err }()
		err = s.callStopHook(ctx, id, value, why)
	})
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case err := <-ended:
		return err
	case <-patience.C:
		return s.hookAbandoned()
	}
}

// callStopHook runs OnPassivate. It returns the hook's panic as an error; an error that
// the hook returns is only logged.
func (s *hostedShard) callStopHook(ctx context.Context, id string, value any, why codegen.Passivation) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicError("OnPassivate", r)
		}
	}()
	if failed := s.host.desc.Passivate(ctx, value, why); failed != nil {
		pl := s.plane()
		pl.seldom.warn(pl.log, "OnPassivate failed", s.ID.Kind, "", "kind", s.ID.Kind, "entity", clip(id), "err", failed)
	}
	return nil
}

// hookAbandoned counts a stop hook that did not return in time, and returns the error.
func (s *hostedShard) hookAbandoned() error {
	s.plane().counters.add(hookAbandoned)
	return fmt.Errorf("%w within %v (heed its context, or raise StopTimeout)", errHookStuck, s.host.settings.stopTimeout)
}

// hookContext is the context of one stop hook. It has a timer and a channel only if the
// hook asks for Done or derives a context: most do not, and a million entities may rest
// at once. The embedded context is the node's.
type hookContext struct {
	context.Context
	deadline time.Time
	over     atomic.Bool
	made     atomic.Pointer[endable]
}

func newHookContext(parent context.Context, deadline time.Time) *hookContext {
	return &hookContext{Context: parent, deadline: deadline}
}

// Deadline is when the hook is abandoned.
func (c *hookContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is closed when the hook has returned or is abandoned, or when the node ends.
func (c *hookContext) Done() <-chan struct{} { return c.context().Done() }

// Err says why Done is closed.
func (c *hookContext) Err() error { return c.context().Err() }

// Value lets package context find the context that was made, so that it starts no
// goroutine for one that is derived.
func (c *hookContext) Value(key any) any {
	if made := c.made.Load(); made != nil {
		return made.Value(key)
	}
	return c.Context.Value(key)
}

// context is made when somebody asks.
func (c *hookContext) context() *endable {
	if made := c.made.Load(); made != nil {
		return made
	}
	made := &endable{}
	made.Context, made.cancel = context.WithDeadline(c.Context, c.deadline)
	if !c.made.CompareAndSwap(nil, made) {
		made.cancel()
		return c.made.Load()
	}
	if c.over.Load() { // end found no context yet
		made.cancel()
	}
	return made
}

// end cancels the context.
func (c *hookContext) end() {
	c.over.Store(true)
	if made := c.made.Load(); made != nil {
		made.cancel()
	}
}
