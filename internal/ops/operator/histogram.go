package operator

import (
	"slices"
	"time"

	loglinear "github.com/shardgen/shardgen/internal/util/histogram"
)

// A histogram counts turns by duration.
type histogram [loglinear.Buckets]uint64

func (h *histogram) add(took time.Duration) { h[loglinear.Of(took)]++ }

func (h *histogram) buckets() (found []Bucket) {
	for i, n := range h {
		if n > 0 {
			found = append(found, Bucket{uint32(i), n})
		}
	}
	return found
}

// A Bucket is the number of turns whose times fall into one bucket of a histogram.
type Bucket struct {
	Number uint32
	Turns  uint64
}

// A TypeLatency is the histogram of the times of a type's turns.
type TypeLatency struct {
	Kind    string
	Buckets []Bucket // those that are not empty, in order of their numbers
}

// Quantile returns the time within which the given share of the turns ended, at most an eighth too
// high; 0 if there are no turns. buckets may be of several histograms, in any order.
func Quantile(buckets []Bucket, share float64) time.Duration {
	sorted := slices.SortedFunc(slices.Values(buckets), func(a, b Bucket) int { return int(a.Number) - int(b.Number) })
	var total, sum uint64
	for _, b := range sorted {
		total += b.Turns
	}
	for _, b := range sorted {
		if sum += b.Turns; sum > 0 && float64(sum) >= share*float64(total) {
			return loglinear.UpTo(int(b.Number))
		}
	}
	return 0
}
