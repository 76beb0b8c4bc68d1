package shard

import (
	"context"

	"github.com/shardgen/shardgen/internal/driver/node"
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
var ErrRefused = node.ErrRefused

// engineInterceptors returns the interceptors as the engine calls them.
func engineInterceptors(all []Interceptor) []node.Interceptor {
	var in []node.Interceptor
	for _, user := range all {
		in = append(in, func(ctx context.Context, call node.CallInfo, next func(context.Context) error) error {
			return user(ctx, infoOf(call), next)
		})
	}
	return in
}
