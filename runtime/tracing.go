package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/driver/node"
)

// Tracing records those calls of a process that are traced: see Config.Tracing. Package shardotel
// implements it with OpenTelemetry. Its methods must be safe for concurrent use.
//
// The process decides whether a call is traced before it allocates anything for the trace. If the
// context of a call has a parent, the call is traced if that parent is sampled. A call without a
// parent is traced with the probability Ratio if it is made outside turns. If it is made in a turn,
// it is not traced, because the trace of that turn would be missing. The host of the entity follows
// its caller's decision, and so do tells and reminders.
//
// Calls that are not traced run as without Tracing: their process allocates nothing for tracing.
type Tracing interface {
	// Ratio returns which share of the calls without a parent is traced, from 0 (none) to 1 (all).
	// Ratio and ParentKey are called once.
	Ratio() float64
	// ParentKey returns the key under which contexts have the parent of their calls.
	ParentKey() any
	// Sampled reports whether parent, a context's value under ParentKey, is sampled. ok is false if
	// that value is not a parent. Sampled is called for each call whose context has a value under
	// ParentKey, and should not allocate.
	Sampled(parent any) (sampled, ok bool)
	// Begin reports whether another trace may begin. It is called before each trace of a call
	// without a parent, so that an implementation can bound the number of such traces. After it has
	// returned false, it is not called for about 1 ms.
	Begin(now time.Time) bool
	// Call begins the trace of a call at its caller. began is when the call began, shortly before.
	// A tell ends when it is sent.
	Call(ctx context.Context, call Info, began time.Time) CallTrace
	// Turn begins the trace of a turn at the host of its entity. The call arrived at call.Arrived
	// and has waited since then; if Arrived is zero, the call did not wait. ctx is the turn's
	// context. The parent is in the context caller or, if caller is nil, in the headers of the
	// call. Turn returns nil if the turn is not traced.
	Turn(ctx, caller context.Context, call Info) TurnTrace
	// Extract returns ctx with the parent from a call's headers, or ctx itself if they have none.
	Extract(ctx context.Context, call Info) context.Context
	// Inject returns a context whose calls carry the parent of ctx in their headers ([WithHeader]).
	Inject(ctx context.Context) context.Context
}

// A CallTrace records one call at its caller.
type CallTrace interface {
	// Context returns the context given to Tracing.Call, with the trace as the parent of calls.
	Context() context.Context
	// Repeat says that the call is sent again. why is the last attempt's error.
	Repeat(why error)
	// End ends the trace with the error of the call, or nil.
	End(err error)
}

// A TurnTrace records one turn at its host.
type TurnTrace interface {
	// Context returns the context given to Tracing.Turn, with the trace as the parent of calls.
	Context() context.Context
	// Return says that the method has returned err, perhaps nil. A call that the host has refused
	// ends in this way too.
	Return(err error)
	// End ends the trace when the answer may be sent. appended is when the append that the answer
	// waited for was sent to the store, or zero if it did not wait. err is not nil if the store may
	// not have the turn's changes. It is called once and must not block.
	End(appended time.Time, err error)
}

// engineTracing is a Tracing for package node.
type engineTracing struct{ Tracing }

func newEngineTracing(t Tracing) node.Tracing {
	if t == nil {
		return nil
	}
	return engineTracing{t}
}

func (t engineTracing) Call(ctx context.Context, call node.CallInfo, began time.Time) node.CallTrace {
	return t.Tracing.Call(ctx, infoOf(call), began)
}

func (t engineTracing) Turn(ctx, caller context.Context, call node.CallInfo) node.TurnTrace {
	return t.Tracing.Turn(ctx, caller, infoOf(call))
}

func (t engineTracing) Extract(ctx context.Context, call node.CallInfo) context.Context {
	return t.Tracing.Extract(ctx, infoOf(call))
}
