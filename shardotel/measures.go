package shardotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shardgen/shardgen/runtime/measure"
	"github.com/shardgen/shardgen/store"
)

// measures are the instruments that report the measurements of a [measure.Meter].
type measures struct {
	pauses  metric.Float64Histogram
	appends metric.Float64Histogram
	commits metric.Int64Histogram
	sizes   metric.Int64Histogram
	frames  metric.Int64Histogram
	late    metric.Float64Histogram
}

func newMeasures(m metric.Meter) (*measures, error) {
	var s measures
	var errs [6]error
	s.pauses, errs[0] = seconds(m, "shardgen.move.pause.duration", "How long a shard that moves away began no turns of new calls.")
	s.appends, errs[1] = seconds(m, "shardgen.store.append.duration", "How long the store took to confirm an append.")
	s.commits, errs[2] = counts(m, "shardgen.store.append.commits", "{commit}", "Commits in one append.", numbers)
	s.sizes, errs[3] = counts(m, "shardgen.store.append.size", "By", "Bytes of one append.", sizes)
	s.frames, errs[4] = counts(m, "shardgen.frame.envelopes", "{envelope}", "Calls, answers and other envelopes in one frame that was sent.", numbers)
	s.late, errs[5] = seconds(m, "shardgen.reminder.lateness.duration", "How long after its due time a reminder ran.")
	return &s, errors.Join(errs[:]...)
}

func (s *measures) meter() measure.Meter {
	ctx := context.Background()
	return measure.Meter{
		StoreAppend: func(a measure.Append) {
			labels := []attribute.KeyValue{keyType.String(a.Kind)}
			if a.Err != nil {
				labels = append(labels, keyError.String(storeError(a.Err)))
			}
			set := metric.WithAttributeSet(attribute.NewSet(labels...))
			s.appends.Record(ctx, a.Took.Seconds(), set)
			s.sizes.Record(ctx, int64(a.Bytes), set)
			if a.Commits > 0 {
				s.commits.Record(ctx, int64(a.Commits), set)
			}
		},
		MoveEnded: func(kind string, committed bool, pause time.Duration) {
			outcome := moveGivenUp
			if committed {
				outcome = moveCommitted
			}
			s.pauses.Record(ctx, pause.Seconds(), metric.WithAttributes(keyType.String(kind), keyMove.String(outcome)))
		},
		ReminderFired: func(kind string, late time.Duration) {
			s.late.Record(ctx, late.Seconds(), metric.WithAttributes(keyType.String(kind)))
		},
		FrameSent: func(envelopes, _ int) { s.frames.Record(ctx, int64(envelopes)) },
	}
}

// storeError returns the label error.type for an append that the store has not confirmed.
func storeError(err error) string {
	for _, known := range []struct {
		err  error
		name string
	}{
		{store.ErrConflict, "conflict"},
		{store.ErrTooLarge, "too_large"},
		{store.ErrBusy, "busy"},
		{store.ErrUnavailable, "unavailable"},
		{store.ErrUncertain, "uncertain"},
		{context.DeadlineExceeded, "deadline"},
		{context.Canceled, "canceled"},
	} {
		if errors.Is(err, known.err) {
			return known.name
		}
	}
	return "_OTHER"
}

// numbers are the bucket bounds of histograms of counts, and sizes those of histograms of bytes.
var (
	numbers = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	sizes   = []float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}
)

// counts returns a histogram of whole numbers.
func counts(m metric.Meter, name, unit, about string, bounds []float64) (metric.Int64Histogram, error) {
	h, err := m.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		return nil, fmt.Errorf("shardotel: instrument %s: %w", name, err)
	}
	return h, nil
}
