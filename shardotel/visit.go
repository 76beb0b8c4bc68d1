package shardotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	shard "github.com/shardgen/shardgen/runtime"
)

// A visit is one call at its host, with its spans.
type visit struct {
	t      *Telemetry
	call   shard.Info
	ctx    context.Context // made from the turn's context, with the span of the whole
	within context.Context // with the span of the turn
	whole  trace.Span
	turn   trace.Span // nil: the trace is not sampled
}

// visit begins the spans of a call when the call's turn begins.
func (t *Telemetry) visit(ctx context.Context, call shard.Info, begin time.Time) *visit {
	if call.Arrived.IsZero() || call.Arrived.After(begin) {
		call.Arrived = begin
	}
	kind := trace.SpanKindServer
	if call.Tell {
		kind = trace.SpanKindConsumer
	}
	v := &visit{t: t, call: call}
	v.ctx, v.whole = t.tracer.Start(ctx, call.Kind+"/"+call.Method, trace.WithSpanKind(kind), trace.WithTimestamp(call.Arrived),
		trace.WithAttributes(append(ofSpan(call), keyCaller.String(call.From.String()))...))
	v.within = v.ctx
	if v.whole.IsRecording() {
		_, queue := t.tracer.Start(v.ctx, "queue", trace.WithTimestamp(call.Arrived))
		queue.End(trace.WithTimestamp(begin))
		v.within, v.turn = t.tracer.Start(v.ctx, "turn", trace.WithTimestamp(begin))
	}
	return v
}

// ended ends the span of the turn. The call's span ends later, when the store
// has the turn's changes.
func (v *visit) ended(err error) {
	now := time.Now()
	if v.turn != nil {
		v.turn.End(trace.WithTimestamp(now))
	}
	note(v.whole, v.call, err, "")
	if !shard.AfterCommit(v.ctx, func(failed error) { v.committed(now, failed) }) {
		v.whole.End(trace.WithTimestamp(now))
	}
}

// committed ends the call's spans when its answer may be sent. The turn ended at since. failed is
// not nil if the store may not have the turn's changes.
func (v *visit) committed(since time.Time, failed error) {
	now := time.Now()
	if v.turn != nil {
		_, span := v.t.tracer.Start(v.ctx, "commit", trace.WithTimestamp(since))
		if failed != nil {
			span.SetStatus(codes.Error, failed.Error())
		}
		span.End(trace.WithTimestamp(now))
	}
	v.whole.End(trace.WithTimestamp(now))
}
