package shard

import (
	"context"
	"fmt"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// intercepted is the invoker of a process with interceptors.
type intercepted struct{ invoker }

// invokerOf returns the invoker of a kind for the calls of this process.
func invokerOf(k *kind) codegen.Invoker {
	if len(k.driver.cfg.Interceptors) > 0 {
		return intercepted{invoker{k}}
	}
	return invoker{k}
}

// Begin leaves the call to Do.
func (p intercepted) Begin(ctx context.Context, r *codegen.Ref, method string, _ bool) (none codegen.Turn, err error) {
	return none, p.Check(ctx, r, method)
}

// Check is that of the invoker, and waits until the interceptors may see the call.
func (p intercepted) Check(ctx context.Context, r *codegen.Ref, method string) error {
	if err := p.cannot(ctx, r, method); err != nil {
		return err
	}
	return p.mayLeave(ctx, turnOf(ctx), r, method)
}

// Do is a call within the interceptors.
func (p intercepted) Do(ctx context.Context, r *codegen.Ref, method string, args []byte) (results []byte, err error) {
	err = p.around(ctx, r, method, args, false, func(ctx context.Context) (err error) {
		results, err = p.invoker.Do(ctx, r, method, args)
		return err
	})
	return results, err
}

// Send is a tell within the interceptors.
func (p intercepted) Send(ctx context.Context, r *codegen.Ref, method string, args []byte) error {
	return p.around(ctx, r, method, args, true, func(ctx context.Context) error { return p.invoker.Send(ctx, r, method, args) })
}

// around makes a call within the interceptors, and returns its own error unless they refuse it.
func (p intercepted) around(ctx context.Context, r *codegen.Ref, method string, args []byte, tell bool, call func(context.Context) error) (err error) {
	made := false
	info := func(ctx context.Context) Info { return p.outgoingInfo(ctx, r.ID, method, tell) }
	refusal := intercept(ctx, p.kind.driver.cfg.Interceptors, info, func(ctx context.Context) error {
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
	codegen.Recycle(args)
	if !tell {
		p.uncalled(ctx, r, method)
	}
	if refusal == nil {
		refusal = errNoNext
	}
	return p.fail(r, method, NotExecuted, fmt.Errorf("%w: %w", ErrRefused, refusal))
}

// outgoingInfo is the Info of a call that this process makes.
func (p intercepted) outgoingInfo(ctx context.Context, id, method string, tell bool) Info {
	self := p.kind.driver.self
	i := Info{Kind: p.kind.desc.Name, ID: id, Method: method, Tell: tell}
	i.From = Identity{Class: ClassMember, Name: self.Name, Incarnation: self.Incarnation}
	if self.Client {
		i.From.Class = ClassClient
	} else if up := turnOf(ctx); up != nil && !tell {
		i.From.Kind, i.From.ID = up.shard().ID.Kind, up.entity.ID
	}
	if o := outgoingOf(ctx); o != nil {
		i.headers = o.info.Headers
		if o.info.Gateway != "" {
			i.From = Identity{Class: ClassGateway, Name: o.info.Gateway}
		}
	}
	return i
}
