package operator

import (
	"math/bits"
	"slices"
	"time"
)

// A histogram has eight buckets for each doubling from 16 ns on, so a quantile is at most an eighth
// too high. The last bucket has turns above two hours.
const (
	unitBits    = 4 // 16 ns
	subBits     = 3 // eight buckets
	subs        = 1 << subBits
	bucketCount = 37 * subs
)

// A histogram counts turns by duration.
type histogram [bucketCount]uint64

func (h *histogram) add(took time.Duration) { h[bucketOf(took)]++ }

func (h *histogram) buckets() (found []Bucket) {
	for i, n := range h {
		if n > 0 {
			found = append(found, Bucket{uint32(i), n})
		}
	}
	return found
}

func bucketOf(took time.Duration) int {
	n := uint64(max(0, took)) >> unitBits
	if n < subs {
		return int(n)
	}
	shift := bits.Len64(n) - subBits - 1
	return min((shift+1)*subs+int(n>>shift)-subs, bucketCount-1)
}

// upTo returns the upper bound of a bucket, exclusive. The last bucket has no real bound.
func upTo(bucket uint32) time.Duration {
	if bucket < subs {
		return time.Duration(bucket+1) << unitBits
	}
	b := min(bucket, bucketCount-1)
	return time.Duration(b%subs+subs+1) << (b/subs - 1 + unitBits)
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
			return upTo(b.Number)
		}
	}
	return 0
}
