package shardotel

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/shardgen/shardgen/runtime/measure"
)

// counted has the processes whose calls Produce reports.
type counted struct {
	began time.Time

	mu      sync.Mutex
	running []Process
	ended   measure.Calls // calls of processes no longer counted, so that no count falls
}

// Count adds the calls of a process to what [Telemetry.Produce] reports, until stop is called. The
// calls counted until then stay in the report. Do not call Count for a process that Observe
// reports.
func (t *Telemetry) Count(p Process) (stop func()) {
	c := &t.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, p)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.running, p)
		c.running = slices.Delete(c.running, i, i+1)
		c.ended = together(c.ended, p.Calls())
	})
}

func together(a, b measure.Calls) measure.Calls {
	return measure.Calls{
		Made: slices.Concat(a.Made, b.Made), Turns: slices.Concat(a.Turns, b.Turns), Waits: slices.Concat(a.Waits, b.Waits), Commits: slices.Concat(a.Commits, b.Commits),
	}
}

// Produce reports the calls of all counted processes together, from their start:
// rpc.client.call.duration, rpc.server.call.duration, shardgen.call.queue.duration and
// shardgen.call.commit.duration, as histograms. It implements the Producer of OpenTelemetry's SDK;
// give the Telemetry to the reader of metrics, with WithProducer. It does not hold up calls, and is
// safe for concurrent use.
//
// Counts are exact, and sums are at most 6 % wrong: see [measure.Calls].
func (t *Telemetry) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	c := &t.counted
	c.mu.Lock()
	all := c.ended
	for _, p := range c.running {
		all = together(all, p.Calls())
	}
	c.mu.Unlock()
	now := time.Now()
	found := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: name}}
	for _, h := range []struct {
		name, about string
		series      []measure.Series
	}{
		{"rpc.client.call.duration", "How long calls took, as their callers saw them.", all.Made},
		{"rpc.server.call.duration", "How long turns took: the method, and before it the activation of an entity that was not active.", all.Turns},
		{"shardgen.call.queue.duration", "How long calls waited in mailboxes for their turns, and before that for their shards to open.", all.Waits},
		{"shardgen.call.commit.duration", "How long answers of durable types waited for the store after their turns, where a turn changed state or read a change that was not committed.", all.Commits},
	} {
		if len(h.series) == 0 {
			continue
		}
		points := map[attribute.Set]*metricdata.HistogramDataPoint[float64]{}
		for i := range h.series {
			add(points, &h.series[i], c.began, now)
		}
		data := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
		for _, p := range points {
			data.DataPoints = append(data.DataPoints, *p)
		}
		found.Metrics = append(found.Metrics, metricdata.Metrics{Name: h.name, Description: h.about, Unit: "s", Data: data})
	}
	if found.Metrics == nil {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{found}, nil
}

// add adds series s to the point with the labels of s.
func add(points map[attribute.Set]*metricdata.HistogramDataPoint[float64], s *measure.Series, from, to time.Time) {
	labels := attribute.NewSet(ending{s.Kind, s.Method, s.Outcome, s.Cause, s.Tell}.attributes()...)
	p := points[labels]
	if p == nil {
		p = &metricdata.HistogramDataPoint[float64]{
			Attributes: labels, StartTime: from, Time: to, Bounds: callBounds, BucketCounts: make([]uint64, len(callBounds)+1),
		}
		points[labels] = p
	}
	p.Count += s.Count()
	p.Sum += s.Sum().Seconds()
	for _, b := range s.Durations {
		i, _ := slices.BinarySearch(callBounds, b.To.Seconds())
		p.BucketCounts[i] += b.Count
	}
}

// callBounds are the bounds of the histograms of calls, in seconds. Each is a power of two of
// nanoseconds, because the buckets of a measure.Series have such bounds. They begin lower than
// those of the semantic conventions, because a call within one process takes less than a
// microsecond, and end at 17 s.
var callBounds = func() (all []float64) {
	for _, bits := range []int{8, 10, 12} {
		all = append(all, time.Duration(1<<bits).Seconds())
	}
	for bits := 13; bits <= 34; bits++ {
		all = append(all, time.Duration(1<<bits).Seconds())
	}
	return all
}()
