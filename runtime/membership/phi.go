package membership

import (
	"math"
	"time"
)

// A phiDetector estimates from the arrival of heartbeats how unlikely it is that
// the next one is still on its way: the phi-accrual failure detector of
// Hayashibara and others, with the logistic approximation of the normal
// distribution that Akka uses:
//
//	y = (t − mean − pause) / σ;  e = exp(−y·(1.5976 + 0.070566·y²))
//	φ = −log10(e / (1 + e))
//
// Intervals are kept in seconds: the square of nanoseconds overflows.
type phiDetector struct {
	intervals []float64 // the last maxIntervals, in seconds; next is overwritten next
	next      int
	last      time.Time // of the last heartbeat
	mean      float64
	deviation float64
}

const (
	maxIntervals = 100
	// minDeviation keeps an even stream from making the detector nervous.
	minDeviation = 0.1
)

// newPhiDetector expects heartbeats from first on. It starts from mean ± mean/4.
func newPhiDetector(first time.Time, interval time.Duration) phiDetector {
	mean := interval.Seconds()
	d := phiDetector{last: first, intervals: []float64{mean - mean/4, mean + mean/4}}
	d.estimate()
	return d
}

// heartbeat records an arrival. An interval of more than longest ended an outage
// and says nothing about the next one.
func (d *phiDetector) heartbeat(now time.Time, longest time.Duration) {
	interval := now.Sub(d.last)
	d.last = now
	if interval > longest || interval < 0 {
		return
	}
	if len(d.intervals) < maxIntervals {
		d.intervals = append(d.intervals, interval.Seconds())
	} else {
		d.intervals[d.next] = interval.Seconds()
		d.next = (d.next + 1) % maxIntervals
	}
	d.estimate()
}

// estimate takes two passes, so that the variance cannot turn out negative.
func (d *phiDetector) estimate() {
	sum := 0.0
	for _, x := range d.intervals {
		sum += x
	}
	d.mean = sum / float64(len(d.intervals))
	squares := 0.0
	for _, x := range d.intervals {
		squares += (x - d.mean) * (x - d.mean)
	}
	d.deviation = max(math.Sqrt(squares/float64(len(d.intervals))), minDeviation)
}

// suspectAt is when the suspicion reaches the threshold that has this y.
func (d *phiDetector) suspectAt(y float64, pause time.Duration) time.Time {
	return d.last.Add(pause + time.Duration((d.mean+y*d.deviation)*float64(time.Second)))
}

// phi is the suspicion at a time; it can be +Inf.
func (d *phiDetector) phi(now time.Time, pause time.Duration) float64 {
	return phiOf((now.Sub(d.last).Seconds() - d.mean - pause.Seconds()) / d.deviation)
}

func phiOf(y float64) float64 {
	// The same as in the type's doc, without the cancellation near φ = 0.
	return math.Log1p(math.Exp(y*(1.5976+0.070566*y*y))) / math.Ln10
}

// phiInverse finds the y at which φ reaches the threshold, by bisection: φ grows
// with y. It is found once, so that the time of suspicion is known ahead.
func phiInverse(threshold float64) float64 {
	low, high := -40.0, 40.0
	for range 100 {
		middle := (low + high) / 2
		if phiOf(middle) < threshold {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
