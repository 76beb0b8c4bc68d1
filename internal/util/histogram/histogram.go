// Package histogram has log-linear buckets for durations, and counts durations by bucket. A
// duration read from a bucket is at most 16 ns or an eighth too high.
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Below 128 ns the buckets are 16 ns wide. From 128 ns on there are eight buckets for each
// doubling. The last bucket has durations above two hours.
const (
	unitBits = 4 // 16 ns
	subBits  = 3 // eight buckets
	subs     = 1 << subBits
	// Buckets is the number of buckets.
	Buckets = 37 * subs
)

// Of returns the bucket of a duration. Negative durations count as 0.
func Of(d time.Duration) int {
	n := uint64(max(0, d)) >> unitBits
	if n < subs {
		return int(n)
	}
	shift := bits.Len64(n) - subBits - 1
	return min((shift+1)*subs+int(n>>shift)-subs, Buckets-1)
}

// UpTo returns the upper bound of a bucket, exclusive. That of the last bucket is nominal.
func UpTo(bucket int) time.Duration {
	if bucket < subs {
		return time.Duration(bucket+1) << unitBits
	}
	b := min(bucket, Buckets-1)
	return time.Duration(b%subs+subs+1) << (b/subs - 1 + unitBits)
}

// From returns the lower bound of a bucket, inclusive.
func From(bucket int) time.Duration {
	if bucket == 0 {
		return 0
	}
	return UpTo(bucket - 1)
}

// Counts counts durations by bucket. It is safe for concurrent use.
type Counts [Buckets]atomic.Uint64
