package shardotel

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	shard "github.com/shardgen/shardgen/runtime"
)

// Attributes of a call: those of shardgen, and those of the semantic conventions for RPC.
const (
	keyType    = attribute.Key("shardgen.type")
	keyEntity  = attribute.Key("shardgen.entity.id") // only in spans
	keyCaller  = attribute.Key("shardgen.caller")    // only in spans
	keyTell    = attribute.Key("shardgen.tell")
	keyOutcome = attribute.Key("rpc.response.status_code")
	keyMethod  = attribute.Key("rpc.method")
	keySystem  = attribute.Key("rpc.system.name")
	keyError   = attribute.Key("error.type")
)

// note records in a span how the call ended. An error that is not the runtime's counts as an error
// of the entity. status is the outcome that the caller knows; hosts leave it empty.
func note(span trace.Span, err error, status string) {
	if !span.IsRecording() {
		return
	}
	if status != "" {
		span.SetAttributes(keyOutcome.String(status))
	}
	if err != nil {
		span.SetAttributes(keyError.String(shard.CauseOf(err)))
		span.SetStatus(codes.Error, err.Error())
	}
}

// An ending has the values that become the labels of a call's metrics.
type ending struct {
	kind, method    string
	status, problem string // "" means none
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

// ofCall returns the attributes of a call, with room for more.
func ofCall(call shard.Info) []attribute.KeyValue {
	return append(make([]attribute.KeyValue, 0, 6),
		keySystem.String("shardgen"), keyMethod.String(call.Kind+"/"+call.Method), keyType.String(call.Kind), keyTell.Bool(call.Tell))
}

// ofSpan returns the attributes of a call for spans.
func ofSpan(call shard.Info) []attribute.KeyValue {
	return append(ofCall(call), keyEntity.String(call.ID))
}
