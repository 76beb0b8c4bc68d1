package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// intercepted makes calls inside the interceptors of the process.
type intercepted struct {
	invoker
	calls codegen.Invoker // makes the calls: the invoker, or a chooser
}

// InvokerOf returns the invoker through which this process calls a kind. All invokers that it
// returns for one kind are equal, because caches of references compare invokers.
func InvokerOf(k *Kind) codegen.Invoker {
	if len(k.Driver.Config.Interceptors) > 0 {
		return intercepted{invoker{k}, invoker{k}}
	}
	return invoker{k}
}

// Choose returns the invoker of references that choose an instance.
func (p intercepted) Choose(choice codegen.PoolChoice, key string) codegen.Invoker {
	return intercepted{p.invoker, chooser{p.invoker, choice, key}}
}

// Hash returns the hash of the id, as the invoker p.calls computes it.
func (p intercepted) Hash(id string) (uint64, error) { return p.calls.Hash(id) }

// Refs returns the cache of references of the invoker p.calls.
func (p intercepted) Refs() *codegen.RefCache { return p.calls.Refs() }

// Begin returns no turn, so that the caller uses Do, which calls the interceptors.
func (p intercepted) Begin(ctx context.Context, r *codegen.Ref, method string, _ bool) (none codegen.Turn, err error) {
	if err := p.Check(ctx, r, method); err != nil {
		return p.unbegun(ctx, r, method, err)
	}
	return none, nil
}

// Check returns an error if a call cannot be sent. Otherwise it waits until the call may leave the
// turn that makes the call. Interceptors see a call only after Check.
func (p intercepted) Check(ctx context.Context, r *codegen.Ref, method string) error {
	if err := p.cannot(ctx, r, method); err != nil {
		return err
	}
	return p.mayLeave(ctx, turnOf(ctx), r, method)
}

// Do makes a call inside the interceptors.
func (p intercepted) Do(ctx context.Context, r *codegen.Ref, method string, args []byte) (results []byte, err error) {
	err = p.around(ctx, r, method, args, false, func(ctx context.Context) (err error) {
		results, err = p.calls.Do(ctx, r, method, args)
		return err
	})
	return results, err
}

// Send sends a tell inside the interceptors.
func (p intercepted) Send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	return p.around(ctx, r, method, args, true, func(ctx context.Context) error { return p.calls.Send(ctx, r, method, args) })
}

// around makes a call inside the interceptors. It returns the call's error or, if an interceptor
// refuses the call, an error with the refusal.
func (p intercepted) around(ctx context.Context, r *codegen.Ref, method string, args []byte, tell bool, call func(context.Context) error) (err error) {
	made := false
	info := func(ctx context.Context) CallInfo { return p.outgoingInfo(ctx, r.ID, method, tell) }
	refusal := intercept(ctx, p.kind.Driver.Config.Interceptors, info, func(ctx context.Context) error {
		if made {
			return errNextTwice
		}
		made = true
		err = call(ctx)
		return err
	})
	if made {
		return err
	}
	began := p.kind.Driver.Lease.Now()
	codegen.Recycle(args)
	if !tell {
		p.uncalled(ctx, r, method)
	}
	if refusal == nil {
		refusal = errNoNext
	}
	err = p.fail(r, method, calls.NotExecuted, fmt.Errorf("%w: %w", ErrRefused, refusal))
	p.made(r, method, tell, began, err)
	return err
}

func (p invoker) outgoingInfo(ctx context.Context, id, method string, tell bool) CallInfo {
	self := p.kind.Driver.Local
	i := CallInfo{Kind: p.kind.Desc.Name, ID: id, Method: method, Tell: tell}
	i.From = Caller{Class: classMember, Name: self.Name, Incarnation: self.Incarnation}
	if self.Client {
		i.From.Class = classClient
	} else if up := turnOf(ctx); up != nil && !tell {
		i.From.Kind, i.From.ID = up.shard().ID.Kind, up.entity.ID
	}
	if o := outgoingOf(ctx); o != nil {
		i.Headers = o.info.Headers
		if o.info.Gateway != "" {
			i.From = Caller{Class: classGateway, Name: o.info.Gateway}
		}
	}
	return i
}

var (
	errNextTwice = errors.New("next was called twice (call it once)")
	errNoNext    = errors.New("the interceptor returned nil without calling next (return an error, or the result of next)")
	errContext   = errors.New("next was called with a context that is not derived from the turn's (derive it from ctx)")
)

func intercept(ctx context.Context, all []Interceptor, call func(context.Context) CallInfo, last func(context.Context) error) error {
	if len(all) == 0 {
		return last(ctx)
	}
	return all[0](ctx, call(ctx), func(ctx context.Context) error { return intercept(ctx, all[1:], call, last) })
}

type refused struct {
	text   string
	causes []error
}

func (e *refused) Error() string   { return ErrRefused.Error() + ": " + e.text }
func (e *refused) Unwrap() []error { return e.causes }

func (e *refused) Is(target error) bool { return target == ErrRefused }
