package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// errHookStuck means that the stop hook has not returned in time. The hook still uses the entity,
// so nothing else may use it.
var errHookStuck = errors.New("OnPassivate does not return")

var errHookExited = fmt.Errorf("%w in OnPassivate or in encoding the state: runtime.Goexit", ErrPanic)

// hookContext is the context of a stop hook. It makes a timer and a channel only on demand: a
// million entities may be passivated at once. The embedded context is the node's.
type hookContext struct {
	context.Context
	deadline time.Time
	over     atomic.Bool
	made     atomic.Pointer[endable]
}

func newHookContext(parent context.Context, deadline time.Time) *hookContext {
	return &hookContext{Context: parent, deadline: deadline}
}

// Deadline returns when the hook will be abandoned.
func (c *hookContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is closed when the hook has returned or was abandoned, or when the node ends.
func (c *hookContext) Done() <-chan struct{} { return c.context().Done() }

// Err returns why Done is closed.
func (c *hookContext) Err() error { return c.context().Err() }

// Value lets package context find the inner context, so that deriving a context starts no
// goroutine.
func (c *hookContext) Value(key any) any {
	if made := c.made.Load(); made != nil {
		return made.Value(key)
	}
	return c.Context.Value(key)
}

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

func (c *hookContext) end() {
	c.over.Store(true)
	if made := c.made.Load(); made != nil {
		made.cancel()
	}
}

type endable struct {
	context.Context
	cancel context.CancelFunc
}
