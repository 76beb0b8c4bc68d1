package node

import (
	"context"
	"errors"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

// storedTellPatience bounds one attempt to deliver a durable entity's stored tell, until the
// receiver has committed its turn. It is the deadline of the receiver's turn.
const storedTellPatience = time.Minute

// outbox sends the tells that are stored in the logs of this process's shards.
type outbox struct{ driver *Driver }

// send sends a stored tell to its receiver. It reports whether the receiver has run the tell and,
// if the receiver is durable, committed the turn.
func (o outbox) send(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool) {
	drv := o.driver
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		arrived, err = o.call(ctx, from, tell, body)
	}
	if !arrived && ctx.Err() == nil {
		drv.Counts.Add(callRetried)
		drv.Limiter.Warn(drv.Logger, "tell of a durable entity waits; it is sent again", tell.Target.Log, body.Method, "from", from.String(),
			"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "err", err)
	}
	return arrived
}

// errNoClient means that this program has no client of the tell's type.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// call makes the call that delivers a stored tell. It is an ask, so that the sender learns that the
// tell has run.
func (o outbox) call(ctx context.Context, from store.Shard, tell durable.Tell, body durablehost.Body) (arrived bool, err error) {
	k := (*o.driver.Kinds.Load())[tell.Target.Log]
	if k == nil {
		return false, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	info, err := wire.ParseInfo(body.Info)
	if err != nil {
		return false, err
	}
	info.Told = true
	within = WithOutgoing(within, info)
	p := invoker{k} // its interceptors have seen the tell already
	ref := codegen.NewRef(p, tell.Entity, nil)
	if err := p.Check(within, ref, body.Method); err != nil {
		return false, err
	}
	as := &toldContext{within, durablehost.TellID(from, tell)}
	_, err = p.Do(as, ref, body.Method, append(codegen.NewArgs(), body.Args...))
	failed, _ := o.driver.Config.ReadCallError(err)
	switch {
	case failed.Panic:
		return !k.Desc.Durable, err // its changes were dropped, so it runs again
	case err == nil, failed.Outcome == calls.Executed:
		return true, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return true, err // it is below the receiver's floor: it has run before
	}
	return false, err
}

// givenUp logs a tell that was not committed in time and is not sent again.
func (o outbox) givenUp(from store.Shard, tell durable.Tell) {
	o.driver.Counts.Add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	attrs := []any{"from", from.String(), "kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number}
	if err != nil {
		attrs = append(attrs, "err", err) // why its method is not known
	}
	o.driver.Logger.Error("dead letter: a tell of a durable entity was given up, because its receiver has not run it in time", attrs...)
}
