package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/internal/wire"
)

// These functions implement what users of package shard do with the context of a turn. Package
// shard has their documentation.

func AfterCommit(ctx context.Context, f func(err error)) bool {
	d := durableOf(turnOf(ctx))
	if d == nil || d.tenure == nil || d.ticket == 0 || d.mayLeave() {
		return false
	}
	d.tenure.Then(d.ticket, f)
	return true
}

func Epoch(ctx context.Context) (uint64, error) {
	t := turnOf(ctx)
	if t == nil || t.shard().Durable == nil {
		return 0, ErrNoEpoch
	}
	if d := durableOf(t); d != nil {
		if d.tenure == nil {
			return 0, fmt.Errorf("%w: an interceptor asked for the epoch before the turn had begun", ErrNoEpoch)
		}
		return d.tenure.Epoch(), nil
	}
	a := t.shard().Durable.entity(t.entity) // of a turn that only reads
	if a == nil {
		return 0, fmt.Errorf("%w: the shard was lost during the turn", ErrNoEpoch)
	}
	return a.tenure.Epoch(), nil
}

var errReadForgets = errors.New("a method marked //shard:read may change nothing (remove the mark)")

var errNoTurn = errors.New("ctx is not the context of an entity's method (pass the method's own context, before the method returns)")

func Passivate(ctx context.Context) error { return endWith(ctx, "passivate", passivateAfter) }

func Forget(ctx context.Context) error { return endWith(ctx, "forget", forgetAfter) }

func endWith(ctx context.Context, what string, after uint32) error {
	t := turnOf(ctx)
	if t == nil {
		return fmt.Errorf("%s: %w", what, errNoTurn)
	}
	if t.shard().Host.Instance != nil || t.shard().Host.Desc.Pool {
		return fmt.Errorf("%s %s: %w", what, t.shard().ID.Kind, errSingletonStays)
	}
	if after == forgetAfter && t.shard().Durable != nil {
		if d := durableOf(t); d == nil || d.read {
			return fmt.Errorf("%s %s/%s: %w", what, t.shard().ID.Kind, clip(t.entity.ID), errReadForgets)
		}
	}
	t.flags.Or(after)
	return nil
}

func StartTask(ctx context.Context, task func(context.Context) error) error {
	t := turnOf(ctx)
	if t != nil && t.shard().Host.Desc.Pool {
		return t.shard().startTask(task)
	}
	if t == nil || t.shard().Host.Instance == nil {
		return fmt.Errorf("start a task: %w (pass the context of a singleton's or a pool's method or OnActivate)", ErrNotSingleton)
	}
	s := t.shard()
	start := s.Host.Instance.Go
	if d := s.Durable; d != nil {
		start = func(task singlehost.Task) bool {
			begin, ok := s.Host.Instance.Prepare(task)
			if ok {
				d.tasks.add(begin)
			}
			return ok
		}
	}
	if !start(task) {
		return fmt.Errorf("start a task of %s: %w: the instance at %s is ending (start tasks from OnActivate of the next one)", s.ID.Kind, ErrClosed, s.driver().Local.Name)
	}
	return nil
}

func CallInfoOf(ctx context.Context) (CallInfo, bool) {
	t := turnOf(ctx)
	if t == nil || t.method == "" {
		return CallInfo{}, false
	}
	return t.info(), true
}

// WithHeader returns a context whose calls carry the header, and also the headers of ctx.
func WithHeader(ctx context.Context, key, value string) (context.Context, error) {
	info := wire.Info{}
	if o := outgoingOf(ctx); o != nil {
		info = o.info
	}
	key = strings.ToLower(key)
	info.Headers = slices.DeleteFunc(slices.Clone(info.Headers), func(h wire.Header) bool { return h.Key == key })
	info.Headers = append(info.Headers, wire.Header{Key: key, Value: value})
	if err := info.Check(); err != nil {
		return ctx, fmt.Errorf("header %s: %w", clip(key), err)
	}
	return WithOutgoing(ctx, info), nil
}

type outgoing struct {
	info    wire.Info
	encoded []byte
}

type outgoingKey struct{}

// outgoingOf returns the description of calls made with ctx, or nil. A turn inherits nothing from
// its caller.
func outgoingOf(ctx context.Context) *outgoing {
	o, _ := ctx.Value(outgoingKey{}).(*outgoing)
	return o
}

func WithOutgoing(ctx context.Context, info wire.Info) context.Context {
	return context.WithValue(ctx, outgoingKey{}, &outgoing{info, info.Append(nil)})
}
