package operator

import (
	"cmp"
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/util/histogram"
)

// A Bucket is the number of turns whose times fall into one bucket of package histogram.
type Bucket struct {
	Number uint32
	Turns  uint64
}

// addBuckets sorts buckets, and adds up those with equal numbers.
func addBuckets(all []Bucket) (sums []Bucket) {
	slices.SortFunc(all, func(a, b Bucket) int { return cmp.Compare(a.Number, b.Number) })
	for _, b := range all {
		if n := len(sums); n > 0 && sums[n-1].Number == b.Number {
			sums[n-1].Turns += b.Turns
		} else {
			sums = append(sums, b)
		}
	}
	return sums
}

// Quantile returns a time within which the given share of the turns ended, for 0.99 the 99th
// percentile. It is at most an eighth too high. Without turns it returns 0. Buckets may be in any
// order, and several may have the same number.
func Quantile(buckets []Bucket, share float64) time.Duration {
	total, sum := uint64(0), uint64(0)
	sorted := addBuckets(slices.Clone(buckets))
	for _, b := range sorted {
		total += b.Turns
	}
	for _, b := range sorted {
		if sum += b.Turns; sum > 0 && float64(sum) >= share*float64(total) {
			return histogram.UpTo(int(b.Number))
		}
	}
	return 0
}

// Sum returns the time that the turns took together. It is at most 6 % wrong.
func Sum(buckets []Bucket) (sum time.Duration) {
	for _, b := range buckets {
		sum += time.Duration(b.Turns) * (histogram.From(int(b.Number)) + histogram.UpTo(int(b.Number))) / 2
	}
	return sum
}
