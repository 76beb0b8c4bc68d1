package shardotel

import (
	"fmt"
	"time"

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
	Propagator propagation.TextMapPropagator
}

// A Telemetry reports to OpenTelemetry. It is safe for concurrent use.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	counted    counted
}

// buckets are the bounds of the histograms of [measure.Meter], in seconds.
var buckets = []float64{
	0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// New returns a Telemetry.
func New(o Options) *Telemetry {
	if o.Tracers == nil {
		o.Tracers = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return &Telemetry{tracer: o.Tracers.Tracer(name), propagator: o.Propagator, counted: counted{began: time.Now()}}
}

// seconds returns a histogram of durations.
func seconds(m metric.Meter, name, about string) (metric.Float64Histogram, error) {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, fmt.Errorf("shardotel: instrument %s: %w", name, err)
	}
	return h, nil
}
