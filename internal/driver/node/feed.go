package node

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
)

// DeadBody returns the body of a tell that only commits its command id, and runs no method.
func DeadBody() []byte { return durablehost.Body{Method: wire.MethodDead}.Append(nil) }

// SendCommands sends the tells of a feed. id returns the command ID of a tell. The callback (then)
// gets each tell once, with its result.
func (drv *Driver) SendCommands(ctx context.Context, from string, partition int, tells []durable.Tell, id func(durable.Tell) durablehost.ID, then func([]durable.Tell, feed.Result, error)) {
	b := &batch{ctx: ctx, from: from, id: id, then: then}
	b.send(drv, partition, tells)
}

// mapping is the context of a feed's function. It collects the tells made with this context.
type mapping struct {
	context.Context
	driver *Driver

	mu    sync.Mutex
	tells []durable.Tell
	err   error // the first call that was refused
	over  bool
}

// Errors of calls made with the context of a feed's function.
var (
	errMapCalls   = errors.New("the function of shard.Consume may only tell durable entities, so that each message is applied once (make other calls in the method that it tells)")
	errMapOver    = errors.New("the function of shard.Consume has returned (tell before it returns, and not from other goroutines)")
	errMapMany    = fmt.Errorf("the function of shard.Consume has made more than %d tells for one message (tell one entity, and let its method make the other tells)", feed.MaxParts)
	errMapForeign = errors.New("the client belongs to another process's Node or Conn (make the client with the node given to shard.Consume)")
)

// Value returns the mapping for turnKey. If the context is derived from a turn's, the mapping hides
// that turn.
func (m *mapping) Value(key any) any {
	if key == (turnKey{}) {
		return m
	}
	return m.Context.Value(key)
}

// fail records that a call was refused, so that the message is not applied without the call.
func (m *mapping) fail(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	return err
}

func (m *mapping) add(c *outCall, p invoker) error {
	err := unfit(c.Ref)
	switch {
	case err != nil:
	case !p.kind.Desc.Durable:
		err = fmt.Errorf("%s is not durable: %w", p.kind.Desc.Name, errMapCalls)
	case p.kind.Driver != m.driver:
		err = errMapForeign
	}
	if err != nil {
		return m.fail(err)
	}
	tell := durableTell{invoker: p, ref: c.Ref, method: c.Method, args: c.Args, says: outgoingOf(c.Context)}.logged()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.over:
		return errMapOver
	case len(m.tells) == feed.MaxParts:
		m.err = errMapMany
		return m.err
	}
	m.tells = append(m.tells, tell)
	return nil
}

// MapTells calls f and returns the tells that f makes with its context.
func (drv *Driver) MapTells(ctx context.Context, f func(context.Context) error) (tells []durable.Tell, err error) {
	m := &mapping{Context: ctx, driver: drv}
	err = m.run(f)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	if err == nil {
		err = m.err
	}
	return m.tells, err
}

func (m *mapping) run(f func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = PanicError("the function of shard.Consume", r)
		}
	}()
	return f(m)
}
