package node

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/store"
)

var (
	errPublishOutside  = errors.New("ctx is not the context of an entity's method (publish with the method's own context, before the method returns)")
	errPublishReads    = errors.New("the turn has no commit, because its method is marked //shard:read or it is OnActivate of a singleton (publish in another method, or with shard.BestEffort)")
	errPublishEarly    = errors.New("an interceptor published before the turn had begun, and the turn may still be refused (publish in the method, or with shard.BestEffort)")
	errPublishVolatile = errors.New("the type is not durable, so there is no commit (make it durable, or publish with shard.BestEffort)")
	errNoPublisher     = errors.New("Config.Store cannot publish messages (use a store opened with natsstore.Open)")
)

// Publish publishes the result of encode as a part of the commit of ctx's turn. If bestEffort is
// set, it instead sends the message once, after that commit.
func Publish(ctx context.Context, subject string, encode func() ([]byte, error), bestEffort bool) error {
	if err := publish(ctx, subject, encode, bestEffort); err != nil {
		return fmt.Errorf("publish on %s: %w: %w", clip(subject), ErrNotPublished, err)
	}
	return nil
}

func publish(ctx context.Context, subject string, encode func() ([]byte, error), bestEffort bool) error {
	if err := store.CheckSubject(subject); err != nil {
		return err
	}
	data, err := encode()
	if err != nil {
		return err
	}
	t := turnOf(ctx)
	if t == nil {
		if f := codegen.PublishOf(ctx); f != nil {
			return f(subject, data, bestEffort)
		}
		return errPublishOutside
	}
	s := t.shard()
	to, ok := s.driver().Config.Store.(store.Publisher)
	if !ok {
		return errNoPublisher
	}
	if err := to.CheckSubject(subject); err != nil {
		return err
	}
	m := durableTell{message: &message{to: to, entity: t.entity.ID, subject: subject, data: data}}
	d := durableOf(t)
	switch {
	case bestEffort && d == nil: // what the turn has read is in the log, or there is none
		m.message.send(s.driver())
		return nil
	case bestEffort:
		ok = d.tells.after(m)
	case s.Durable == nil:
		return errPublishVolatile
	case d != nil && d.tenure == nil:
		return errPublishEarly
	case d == nil || d.reads():
		return errPublishReads
	default:
		ok = d.tells.put(m)
	}
	if !ok {
		return errPublishOutside
	}
	return nil
}

// A message is what a turn publishes.
type message struct {
	to      store.Publisher
	entity  string // the entity that publishes it
	subject string
	data    []byte
}

// logged returns the form in which the log stores the message.
func (m *message) logged() durable.Tell {
	body := durablehost.Body{Method: m.subject, Args: m.data}
	return durable.Tell{Target: durable.Target{Log: durable.Published}, Entity: m.entity, Body: body.Append(nil)}
}

// send sends the message once. It only counts and logs a failure.
func (m *message) send(drv *Driver) {
	if err := m.to.Send(drv.Context, m.subject, m.data); err != nil {
		drv.Undelivered.lose(&drv.Counts, calls.NotExecuted)
		drv.Limiter.Warn(drv.Logger, "message published with best effort could not be sent", durable.Published, m.subject,
			"subject", m.subject, "entity", clip(m.entity), "err", err)
	}
}

// messageID returns the id of a message in the log of a shard. No other message of the store has
// this id.
func messageID(from store.Shard, number uint64) string {
	return fmt.Sprintf("%s/%d/%d", url.PathEscape(from.Type), from.Number, number)
}

// publishStored publishes a message that is stored in the log of shard from. It reports whether a
// stream has stored the message.
func (drv *Driver) publishStored(ctx context.Context, from store.Shard, tell durable.Tell) (stored bool) {
	body, err := durablehost.ReadBody(tell.Body)
	if err == nil {
		err = errNoPublisher
		if to, ok := drv.Config.Store.(store.Publisher); ok {
			within, cancel := context.WithTimeout(ctx, storedTellPatience)
			defer cancel()
			err = to.Publish(within, store.Message{
				Subject: body.Method, ID: messageID(from, tell.Number), Data: body.Args, First: tell.First,
			})
		}
	}
	if err != nil && ctx.Err() == nil {
		drv.Counts.Add(messageWaits)
		drv.Limiter.Warn(drv.Logger, "message of a durable entity waits; it is published again", durable.Published, body.Method,
			"from", from.String(), "entity", clip(tell.Entity), "subject", body.Method, "err", err)
	}
	return err == nil
}
