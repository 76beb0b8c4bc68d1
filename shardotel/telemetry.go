package shardotel

import (
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// name is the name of the tracer and of the meter.
const name = "github.com/shardgen/shardgen/shardotel"

// Options configure a Telemetry. The zero value of every field is its default.
type Options struct {
	// Tracers makes the tracer of the spans. The sampler of Tracers is asked only about calls that
	// are to be traced: leave it at OpenTelemetry's default, which samples all of these. Default:
	// OpenTelemetry's global provider.
	Tracers trace.TracerProvider
	// Propagator writes traces into the headers of calls. Default: OpenTelemetry's global
	// propagator.
	Propagator propagation.TextMapPropagator
	// Ratio is the fraction of calls to trace, from 0 (none) to 1 (all). It applies to calls that
	// are made outside turns and whose context has no span. A call whose context has a span is
	// traced if the span is sampled, whatever the ratio. Default 0.
	Ratio float64
	// MaxTraces bounds the traces that the Telemetry begins in one second. After a pause it may
	// begin a tenth more. Further calls are not traced. Default 1,000, minimum 1.
	MaxTraces int
}

// A Telemetry reports to OpenTelemetry. It is safe for concurrent use.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	w3c        bool // propagator writes traceparent
	ratio      float64
	limit      limit
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
	if o.MaxTraces <= 0 {
		o.MaxTraces = 1000
	}
	return &Telemetry{
		tracer: o.Tracers.Tracer(name), propagator: o.Propagator, w3c: slices.Contains(o.Propagator.Fields(), traceparent), ratio: o.Ratio, limit: limit{each: time.Second / time.Duration(o.MaxTraces)}, counted: counted{began: time.Now()},
	}
}

// seconds returns a histogram of durations.
func seconds(m metric.Meter, name, about string) (metric.Float64Histogram, error) {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, fmt.Errorf("shardotel: instrument %s: %w", name, err)
	}
	return h, nil
}
