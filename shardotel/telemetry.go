package shardotel

import (
	"fmt"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// name is the name of the tracer and of the meter.
const name = "github.com/shardgen/shardgen/shardotel"

// Options configure a Telemetry. A nil field means OpenTelemetry's global one.
type Options struct {
	Tracers    trace.TracerProvider
	Meters     metric.MeterProvider
	Propagator propagation.TextMapPropagator
}

// A Telemetry reports to OpenTelemetry. It is safe for concurrent use.
type Telemetry struct {
	tracer     trace.Tracer
	meter      metric.Meter
	propagator propagation.TextMapPropagator
	caller     metric.Float64Histogram
	host       metric.Float64Histogram
	queued     metric.Float64Histogram
	commit     metric.Float64Histogram
	known      sync.Map // of labels by ending
}

// buckets are the bounds of the histograms, in seconds. They begin lower than those of the semantic
// conventions, because a call within one process is shorter than the smallest of these.
var buckets = []float64{
	0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// New returns a Telemetry. It fails if the meter refuses an instrument.
func New(o Options) (*Telemetry, error) {
	if o.Tracers == nil {
		o.Tracers = otel.GetTracerProvider()
	}
	if o.Meters == nil {
		o.Meters = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	t := &Telemetry{tracer: o.Tracers.Tracer(name), meter: o.Meters.Meter(name), propagator: o.Propagator}
	var err error
	if t.caller, err = seconds(t.meter, "rpc.client.call.duration", "How long calls took, as their callers saw them."); err != nil {
		return nil, err
	}
	if t.host, err = seconds(t.meter, "rpc.server.call.duration", "How long turns took: the method, and before it the activation of an entity that was not active."); err != nil {
		return nil, err
	}
	if t.queued, err = seconds(t.meter, "shardgen.call.queue.duration", "How long calls waited in mailboxes for their turns, and before that for their shards to open."); err != nil {
		return nil, err
	}
	if t.commit, err = seconds(t.meter, "shardgen.call.commit.duration", "How long answers of durable types waited for the store after their turns, where a turn changed state or read a change that was not committed."); err != nil {
		return nil, err
	}
	return t, nil
}

// seconds returns a histogram of durations.
func seconds(m metric.Meter, name, about string) (metric.Float64Histogram, error) {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, fmt.Errorf("shardotel: instrument %s: %w", name, err)
	}
	return h, nil
}
