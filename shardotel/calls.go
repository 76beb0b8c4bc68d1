package shardotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	shard "github.com/shardgen/shardgen/runtime"
)

// Attributes of a call: those of shardgen, and those of the semantic conventions for RPC.
const (
	keyType    = attribute.Key("shardgen.type")
	keyEntity  = attribute.Key("shardgen.entity.id") // of spans only
	keyCaller  = attribute.Key("shardgen.caller")    // of spans only
	keyTell    = attribute.Key("shardgen.tell")
	keyOutcome = attribute.Key("rpc.response.status_code")
	keyMethod  = attribute.Key("rpc.method")
	keySystem  = attribute.Key("rpc.system.name")
	keyError   = attribute.Key("error.type")
)

// Caller returns the interceptor of callers (shard.Config.Interceptors). It opens a span of kind
// client, or producer for a tell, with the outcome of the call ("executed", "not executed" or
// "unknown") as rpc.response.status_code. The span of a tell ends when the tell is sent. The parent
// of a span is in the context or, for calls from the gateway, in the call's headers.
func (t *Telemetry) Caller() shard.Interceptor {
	return func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		kind := trace.SpanKindClient
		if call.Tell {
			kind = trace.SpanKindProducer
		}
		if !trace.SpanContextFromContext(ctx).IsValid() {
			ctx = t.propagator.Extract(ctx, headersOf(call)) // of a caller of the gateway
		}
		ctx, span := t.tracer.Start(ctx, call.Kind+"/"+call.Method, trace.WithSpanKind(kind), trace.WithAttributes(ofSpan(call)...))
		headers := carrier{}
		t.propagator.Inject(ctx, headers)
		ctx, lost := headers.put(ctx)
		if lost != nil {
			span.AddEvent("the trace is not passed on", trace.WithAttributes(attribute.String("reason", lost.Error())))
		}
		err := next(ctx)
		note(span, call, err, shard.OutcomeOf(err).String())
		span.End()
		return err
	}
}

// Host returns the interceptor of a hosted type (shard.Intercept). It opens a span of kind server,
// or consumer for a tell, as a child of the caller's span. The span lasts from the call's arrival
// at the host to the moment when the answer may be sent. The span of a call from the gateway also
// names the caller. The span's children are the spans "queue" (the wait for its turn), "turn" (with
// the calls of the method as children), and for a durable type "commit" (the answer's wait for the
// store).
func (t *Telemetry) Host() shard.Interceptor {
	return func(ctx context.Context, call shard.Info, next func(context.Context) error) error {
		begin := time.Now()
		v := t.visit(t.propagator.Extract(ctx, headersOf(call)), call, begin)
		err := next(v.within)
		v.ended(err)
		return err
	}
}

// note notes in a span how the call ended. An error that does not come from the runtime counts as an
// error of the entity. status is the outcome that the caller knows; hosts leave it empty.
func note(span trace.Span, call shard.Info, err error, status string) {
	if !span.IsRecording() {
		return
	}
	e := ending{kind: call.Kind, method: call.Method, status: status, tell: call.Tell}
	if err != nil {
		e.problem = shard.CauseOf(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.SetAttributes(e.attributes()...)
}

// An ending has the values from which the labels of a call are made.
type ending struct {
	kind, method    string
	status, problem string // "": none
	tell            bool
}

func (e ending) attributes() []attribute.KeyValue {
	all := ofCall(shard.Info{Kind: e.kind, Method: e.method, Tell: e.tell})
	if e.status != "" {
		all = append(all, keyOutcome.String(e.status))
	}
	if e.problem != "" {
		all = append(all, keyError.String(e.problem))
	}
	return all
}

// ofCall returns the attributes of a call for metrics.
func ofCall(call shard.Info) []attribute.KeyValue {
	return []attribute.KeyValue{
		keySystem.String("shardgen"), keyMethod.String(call.Kind + "/" + call.Method), keyType.String(call.Kind), keyTell.Bool(call.Tell),
	}
}

// ofSpan returns the attributes of a call for spans.
func ofSpan(call shard.Info) []attribute.KeyValue {
	return append(ofCall(call), keyEntity.String(call.ID))
}
