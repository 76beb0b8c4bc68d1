package shard

import (
	"context"
	"errors"
)

// An Interceptor is called around calls: around those a process makes (Config.Interceptors), or
// around the turns of a hosted type ([Intercept]). It goes on with the call by next, and refuses it
// by returning an error without next. It must be safe for concurrent use.
//
// The caller of a refused call gets a [CallError] with the outcome NotExecuted, for which
// errors.Is(err, ErrRefused) holds. At the caller it wraps the interceptor's error. From a host it
// has that error's text, and its errors declared with //shard:error. Nobody hears of a refused
// tell, which is counted as "refused" at the host.
//
// Next returns when the call has ended, and at the caller of a tell once it is sent. It returns the
// call's error. The interceptor's own result has no effect then: a call ends as its entity, or the
// runtime, has ended it. Next is called once, on the same goroutine, with ctx or a context
// derived from it.
type Interceptor func(ctx context.Context, call Info, next func(context.Context) error) error

// ErrRefused means that an [Interceptor] refused the call. Nothing ran.
var ErrRefused = errors.New("refused by an interceptor")

var (
	errNextTwice = errors.New("next was called twice (call it once)")
	errNoNext    = errors.New("it returned nil without a call of next (return an error, or what next returns)")
	errContext   = errors.New("next was called with a context that is not derived from the turn's (derive it from ctx)")
)

// intercept calls the interceptors, each within the one before, and then last.
func intercept(ctx context.Context, all []Interceptor, call func(context.Context) Info, last func(context.Context) error) error {
	if len(all) == 0 {
		return last(ctx)
	}
	return all[0](ctx, call(ctx), func(ctx context.Context) error { return intercept(ctx, all[1:], call, last) })
}

// refused is the refusal of a host's interceptor, as its caller sees it.
type refused struct {
	text   string
	causes []error
}

func (e *refused) Error() string   { return ErrRefused.Error() + ": " + e.text }
func (e *refused) Unwrap() []error { return e.causes }

// Is reports ErrRefused.
func (e *refused) Is(target error) bool { return target == ErrRefused }
