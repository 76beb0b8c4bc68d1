package shard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// durableTell is a tell of a durable entity's turn, which leaves when the turn is committed.
type durableTell struct {
	port   port
	ref    *codegen.Ref
	method string
	args   []byte
}

// tell notes a tell of the turn. It reports false for a turn that has ended.
func (d *durableTurn) tell(c *outCall, p port) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.settled {
		d.tells = append(d.tells, durableTell{p, c.Ref, c.Method, slices.Clone(c.Args)})
	}
	return !d.settled
}

// told takes what the turn has told others.
func (d *durableTurn) told() []durableTell {
	d.mu.Lock()
	defer d.mu.Unlock()
	tells := d.tells
	d.tells, d.settled = nil, true
	return tells
}

// waiting is what is told as the log has it.
func waiting(tells []durableTell) (all []durable.Tell) {
	for _, t := range tells {
		k := t.port.kind
		all = append(all, durable.Tell{
			Target: durable.Target{Log: k.desc.Name, Shard: placement.ShardOf(t.ref.Hash, k.shards)},
			Entity: t.ref.ID, Body: durablehost.Body{Method: t.method, Args: t.args}.Append(nil),
		})
	}
	return all
}

// sendTells sends the tells of a turn that has no commit, once the log has what it saw. They
// are not kept: they may be lost.
func (d *durableTurn) sendTells(tells []durableTell) {
	if len(tells) == 0 {
		return
	}
	d.tenure.Then(d.ticket, func(err error) {
		if err != nil {
			return // the turn runs again elsewhere, if its caller asks again
		}
		for _, t := range tells {
			pl := t.port.kind.plane
			if err := t.port.tell(&outCall{Context: pl.ctx, Args: t.args, Ref: t.ref, Method: t.method}); err != nil {
				pl.loseTell(NotExecuted)
				pl.seldom.warn(pl.log, "tell of a durable entity could not be sent", t.port.kind.desc.Name, t.method,
					"kind", t.port.kind.desc.Name, "entity", clip(t.ref.ID), "method", t.method, "err", err)
			}
		}
	})
}

// storedTellPatience bounds one try to have a tell of a durable entity committed at its receiver.
// It is the deadline of the turn there.
const storedTellPatience = time.Minute

// sendTold brings a tell from a shard's log to its receiver. It reports whether the receiver
// has run it, and has committed that if it is durable.
func (pl *plane) sendTold(ctx context.Context, from store.Shard, tell durable.Tell) (arrived bool) {
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		arrived, err = pl.callTold(ctx, from, tell, body)
	}
	if !arrived && ctx.Err() == nil {
		pl.counters.add(callRetried)
		pl.seldom.warn(pl.log, "tell of a durable entity waits; it is sent again", tell.Target.Log, body.Method, "from", from.String(),
			"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "err", err)
	}
	return arrived
}

// errNoClient is about a type that this program does not use.
var errNoClient = errors.New("this process has no client of the type (make one before the node starts)")

// callTold makes the call that a tell is on the way: it is answered, so that the sender knows.
func (pl *plane) callTold(ctx context.Context, from store.Shard, tell durable.Tell, body durablehost.Body) (arrived bool, err error) {
	k := (*pl.kinds.Load())[tell.Target.Log]
	if k == nil {
		return false, errNoClient
	}
	within, cancel := context.WithTimeout(ctx, storedTellPatience)
	defer cancel()
	p := port{k}
	c := outCall{Context: within, Args: append(codegen.NewArgs(), body.Args...), Ref: codegen.NewRef(p, tell.Entity, nil), Method: body.Method}
	if err := p.cannot(within, c.Ref, c.Method); err != nil {
		return false, err
	}
	if k.desc.Durable {
		c.Command = &sentCommand{id: durablehost.TellID(from, tell)}
	}
	_, err = p.do(&c)
	var failed *EntityError
	switch {
	case errors.As(err, &failed) && failed.Panic:
		return !k.desc.Durable, err // nothing of it stands: it runs again
	case err == nil, OutcomeOf(err) == Executed:
		return true, err
	case errors.Is(err, context.Canceled) && within.Err() == nil:
		return true, err // it is below the receiver's floor: it has run before
	}
	return false, err
}

// tellGivenUp says that a tell was not committed in time.
func (pl *plane) tellGivenUp(from store.Shard, tell durable.Tell) {
	pl.counters.add(tellGivenUp)
	body, err := durablehost.ReadBody(tell.Body)
	pl.log.Error("dead letter: a tell of a durable entity was given up, for its receiver has not run it in time", "from", from.String(),
		"kind", tell.Target.Log, "entity", clip(tell.Entity), "method", body.Method, "number", tell.Number, "err", err)
}
