package histogram

import (
	"testing"
	"time"
)

// TestBuckets: each duration is within the bounds of its bucket, which are at most an eighth apart.
func TestBuckets(t *testing.T) {
	for d := time.Duration(0); d < time.Hour; d += max(1, d/50) {
		b := Of(d)
		from, to := From(b), UpTo(b)
		if d < from || d >= to || d >= 128 && to-from > from/8 {
			t.Fatalf("%v is in bucket %d, from %v to %v", d, b, from, to)
		}
	}
	for _, tt := range []struct{ got, want int }{{Of(-1), 0}, {Of(100 * time.Hour), Buckets - 1}} {
		if tt.got != tt.want {
			t.Errorf("got bucket %d, want %d", tt.got, tt.want)
		}
	}
	if last := UpTo(Buckets - 1); last < 2*time.Hour || UpTo(1<<31) != last { // 1<<31: a bucket of a newer member
		t.Errorf("the last bucket reaches to %v, and unknown ones to %v", last, UpTo(1<<31))
	}
}
