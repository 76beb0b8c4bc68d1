package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardgen/shardgen/examples/tenants"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardotel"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// TestTraceOfGateway checks that a caller in another language can send the header traceparent to
// the gateway: the span of the call at the entity's host is then a child of the caller's span.
func TestTraceOfGateway(t *testing.T) {
	server, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	spans := tracetest.NewSpanRecorder()
	telemetry := shardotel.New(shardotel.Options{
		Tracers: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), Propagator: propagation.TraceContext{}, // Ratio is 0: the caller decides
	})
	for _, name := range []string{"n1", "n2"} { // either takes the request, and either has the folder
		node := shard.New(shard.Config{
			Cluster: "demo", Name: name, Transport: natstransport.New(server.ClientURL()), Gateway: true,
			Tracing: telemetry, Logger: slog.New(slog.DiscardHandler),
		})
		if err := tenants.HostFolder(node, func() *tenants.Folder { return &tenants.Folder{} }); err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
	}
	caller, err := nats.Connect(server.ClientURL(), nats.CustomInboxPrefix("_INBOX.php"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	request := nats.NewMsg("sh.demo.g.php.Folder.Put.acme=2Fmail")
	request.Data = []byte(`{"text":"hello"}`)
	request.Header.Set("traceparent", parent)
	answer, err := caller.RequestMsg(request, time.Minute)
	if err != nil || answer.Header.Get("Shard-Outcome") != "executed" {
		t.Fatalf("%v: %v", answer, err)
	}
	await(t, "the host's span", func() bool {
		for _, span := range spans.Ended() {
			if span.SpanKind() == trace.SpanKindServer && span.Name() == "Folder/Put" {
				return true
			}
		}
		return false
	})
	byID := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	var host sdktrace.ReadOnlySpan
	for _, span := range spans.Ended() {
		if got := span.SpanContext().TraceID().String(); got != parent[3:35] {
			t.Errorf("span %s is in trace %s, want that of %s", span.Name(), got, parent)
		}
		byID[span.SpanContext().SpanID()] = span
		if span.SpanKind() == trace.SpanKindServer {
			host = span
		}
	}
	root := host.Parent()
	for byID[root.SpanID()] != nil { // a gateway that does not have the folder calls its host
		root = byID[root.SpanID()].Parent()
	}
	if got := root.SpanID().String(); got != parent[36:52] || !root.IsRemote() {
		t.Errorf("the first span's parent is %s, want that of %s", got, parent)
	}
}
