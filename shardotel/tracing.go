package shardotel

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	shard "github.com/shardgen/shardgen/runtime"
)

var _ shard.Tracing = (*Telemetry)(nil)

// Ratio returns Options.Ratio. Only the runtime calls Ratio, ParentKey, Sampled, Begin, Call, Turn,
// Extract and Inject: see [shard.Tracing].
func (t *Telemetry) Ratio() float64 { return t.ratio }

// ParentKey returns the key under which a context holds OpenTelemetry's current span.
func (t *Telemetry) ParentKey() any { return spanKey }

// spanKey is OpenTelemetry's key for the current span, which it does not export.
var spanKey = func() any {
	p := &probe{Context: context.Background()}
	trace.SpanFromContext(p)
	return p.key
}()

// probe is a context that records the key that Value is called with.
type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// Sampled reports whether the trace of a span is sampled, and whether the span has a trace at all.
func (t *Telemetry) Sampled(parent any) (sampled, ok bool) {
	span, is := parent.(trace.Span)
	if !is {
		return false, false
	}
	c := span.SpanContext()
	return c.IsValid() && c.IsSampled(), c.IsValid()
}

// Call starts the span of a call at its caller. The span's kind is client, or producer for a tell.
// When the call ends, the span gets the outcome ("executed", "not executed" or "unknown") as
// rpc.response.status_code.
func (t *Telemetry) Call(ctx context.Context, call shard.Info, began time.Time) shard.CallTrace {
	kind := trace.SpanKindClient
	if call.Tell {
		kind = trace.SpanKindProducer
	}
	ctx, span := t.tracer.Start(ctx, call.Kind+"/"+call.Method, trace.WithSpanKind(kind), trace.WithTimestamp(began), trace.WithAttributes(ofSpan(call)...))
	return &callSpan{ctx, span}
}

// Begin reports whether another trace may begin: see Options.MaxTraces.
func (t *Telemetry) Begin(now time.Time) bool { return t.limit.take(now) }

// limit bounds the traces that begin in a second, and spreads them over the second.
type limit struct {
	each time.Duration // from one trace to the next

	mu   sync.Mutex
	next time.Time // time before which no trace may begin
}

// burst is how long an unused right to begin a trace lasts.
const burst = 100 * time.Millisecond

func (l *limit) take(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next.After(now) {
		return false
	}
	if earliest := now.Add(-burst); l.next.Before(earliest) {
		l.next = earliest
	}
	l.next = l.next.Add(l.each)
	return true
}

type callSpan struct {
	ctx  context.Context
	span trace.Span
}

func (c *callSpan) Context() context.Context { return c.ctx }

// Repeat adds an event for a failed attempt to the span.
func (c *callSpan) Repeat(why error) {
	c.span.AddEvent("retry", trace.WithAttributes(keyError.String(shard.CauseOf(why)), attribute.String("exception.message", why.Error())))
}

func (c *callSpan) End(err error) {
	note(c.span, err, shard.OutcomeOf(err).String())
	c.span.End()
}

// Turn starts the span of a turn. For an ask the span has the kind server, and is a child of the
// caller's span. For a tell or a reminder it has the kind consumer, in a trace of its own, with a
// link to the sender's span. The span lasts from the call's arrival at the host until its answer
// may be sent. Its children are the spans "queue" (the wait for the turn), the calls of the method,
// and for a durable type "commit" (the answer's wait for the store). The span "append" in "commit"
// is the request to the store, which may have begun earlier.
func (t *Telemetry) Turn(ctx, caller context.Context, call shard.Info) shard.TurnTrace {
	if caller == nil {
		ctx = t.Extract(ctx, call)
	} else {
		ctx = trace.ContextWithSpan(ctx, trace.SpanFromContext(caller))
		if all := baggage.FromContext(caller); all.Len() > 0 {
			ctx = baggage.ContextWithBaggage(ctx, all)
		}
	}
	parent := trace.SpanContextFromContext(ctx)
	if !parent.IsSampled() {
		return nil
	}
	begin := time.Now()
	if call.Arrived.IsZero() || call.Arrived.After(begin) {
		call.Arrived = begin
	}
	options := []trace.SpanStartOption{
		trace.WithTimestamp(call.Arrived), trace.WithAttributes(append(ofSpan(call), keyCaller.String(call.From.String()))...), trace.WithSpanKind(trace.SpanKindServer),
	}
	if call.Tell {
		options = append(options, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: parent}))
	}
	ctx, span := t.tracer.Start(ctx, call.Kind+"/"+call.Method, options...)
	if span.IsRecording() && begin.After(call.Arrived) {
		_, queue := t.tracer.Start(ctx, "queue", trace.WithTimestamp(call.Arrived))
		queue.End(trace.WithTimestamp(begin))
	}
	return &turnSpan{ctx: ctx, span: span, tracer: t.tracer}
}

type turnSpan struct {
	ctx      context.Context
	span     trace.Span
	tracer   trace.Tracer
	returned time.Time
}

func (s *turnSpan) Context() context.Context { return s.ctx }

// Return records how the method ended.
func (s *turnSpan) Return(err error) {
	note(s.span, err, "")
	s.returned = time.Now()
}

// End ends the span. It adds a child for the wait for the store, and one for the append.
func (s *turnSpan) End(appended time.Time, failed error) {
	now := s.returned
	if !appended.IsZero() {
		now = time.Now()
		ctx, commit := s.tracer.Start(s.ctx, "commit", trace.WithTimestamp(s.returned))
		if failed != nil {
			commit.SetStatus(codes.Error, failed.Error())
		} else {
			_, store := s.tracer.Start(ctx, "append", trace.WithTimestamp(appended))
			store.End(trace.WithTimestamp(now))
		}
		commit.End(trace.WithTimestamp(now))
	}
	s.span.End(trace.WithTimestamp(now))
}

// Extract returns ctx with the span and the baggage in a call's headers.
func (t *Telemetry) Extract(ctx context.Context, call shard.Info) context.Context {
	headers := carrier{}
	for key, value := range call.Headers() {
		headers[key] = value
	}
	return t.propagator.Extract(ctx, headers)
}

// Inject returns a context whose calls carry the span and the baggage of ctx in their headers. If
// span and baggage do not fit beside the other headers, Inject returns ctx itself, and adds an
// event to the span.
func (t *Telemetry) Inject(ctx context.Context) context.Context {
	if c := trace.SpanContextFromContext(ctx); t.w3c && !c.IsSampled() && c.TraceState().Len() == 0 && baggage.FromContext(ctx).Len() == 0 {
		with, _ := shard.WithHeader(ctx, traceparent, unsampled(c)) // if there is no room, WithHeader returns ctx
		return with
	}
	headers, with := carrier{}, ctx
	t.propagator.Inject(ctx, headers)
	for key, value := range headers {
		var err error
		if with, err = shard.WithHeader(with, key, value); err != nil {
			trace.SpanFromContext(ctx).AddEvent("the trace is not passed on", trace.WithAttributes(attribute.String("reason", err.Error())))
			return ctx
		}
	}
	return with
}

// traceparent is the header of W3C Trace Context. For calls below a span that is not sampled,
// perhaps most calls, it is written here without the propagator.
const traceparent = "traceparent"

// unsampled returns the traceparent of a span that is not sampled.
func unsampled(c trace.SpanContext) string {
	var b [55]byte
	id, span := c.TraceID(), c.SpanID()
	copy(b[:], "00-")
	hex.Encode(b[3:], id[:])
	b[35] = '-'
	hex.Encode(b[36:], span[:])
	copy(b[52:], "-00")
	return string(b[:])
}

// A carrier has the headers that a propagator writes and reads. Their keys are in lower case.
type carrier map[string]string

func (c carrier) Get(key string) string { return c[key] }

func (c carrier) Set(key, value string) { c[key] = value }

func (c carrier) Keys() (keys []string) {
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
