package detector

import (
	"math"
	"time"
)

// phiDetector estimates how unlikely it is that the next heartbeat is still on its way: the
// phi-accrual failure detector of Hayashibara et al., with Akka's logistic approximation of the
// normal distribution:
//
//	y = (t − mean − pause) / σ;  e = exp(−y·(1.5976 + 0.070566·y²))
//	φ = −log10(e / (1 + e))
//
// Intervals are in seconds, because the square of nanoseconds overflows.
type phiDetector struct {
	Intervals []float64 // the last MaxIntervals, in seconds
	next      int       // the index in Intervals that is overwritten next
	last      time.Time // of the last heartbeat
	Mean      float64
	Deviation float64
}

const (
	MaxIntervals = 100
	// MinDeviation is the least standard deviation, in seconds. Without it, a very regular stream
	// would make the detector suspect a peer for a short delay.
	MinDeviation = 0.1
)

// NewPhiDetector returns a detector that counts silence from the time first. It begins with two
// intervals, interval ± interval/4.
func NewPhiDetector(first time.Time, interval time.Duration) phiDetector {
	mean := interval.Seconds()
	d := phiDetector{last: first, Intervals: []float64{mean - mean/4, mean + mean/4}}
	d.estimate()
	return d
}

// Heartbeat records the arrival of a heartbeat. It ignores an interval longer than longest: that
// was an outage, and says nothing about the next interval.
func (d *phiDetector) Heartbeat(now time.Time, longest time.Duration) {
	interval := now.Sub(d.last)
	d.last = now
	if interval > longest || interval < 0 {
		return
	}
	if len(d.Intervals) < MaxIntervals {
		d.Intervals = append(d.Intervals, interval.Seconds())
	} else {
		d.Intervals[d.next] = interval.Seconds()
		d.next = (d.next + 1) % MaxIntervals
	}
	d.estimate()
}

// estimate computes the mean and the deviation. It uses two passes, so that the variance cannot
// turn out negative.
func (d *phiDetector) estimate() {
	sum := 0.0
	for _, x := range d.Intervals {
		sum += x
	}
	d.Mean = sum / float64(len(d.Intervals))
	squares := 0.0
	for _, x := range d.Intervals {
		squares += (x - d.Mean) * (x - d.Mean)
	}
	d.Deviation = max(math.Sqrt(squares/float64(len(d.Intervals))), MinDeviation)
}

// SuspectAt returns the time at which phi reaches the threshold; y is PhiInverse of the threshold.
// pause is additional allowed silence.
func (d *phiDetector) SuspectAt(y float64, pause time.Duration) time.Time {
	return d.last.Add(pause + time.Duration((d.Mean+y*d.Deviation)*float64(time.Second)))
}

// Phi returns the suspicion φ at the time now; it can be +Inf.
func (d *phiDetector) Phi(now time.Time, pause time.Duration) float64 {
	return PhiOf((now.Sub(d.last).Seconds() - d.Mean - pause.Seconds()) / d.Deviation)
}

func PhiOf(y float64) float64 {
	// This is the formula of the type's doc, without its cancellation near φ = 0.
	return math.Log1p(math.Exp(y*(1.5976+0.070566*y*y))) / math.Ln10
}

// PhiInverse returns the y at which PhiOf(y) reaches the threshold. It searches by bisection,
// because PhiOf(y) grows with y. Callers keep the result, so that SuspectAt needs no search.
func PhiInverse(threshold float64) float64 {
	low, high := -40.0, 40.0
	for range 100 {
		middle := (low + high) / 2
		if PhiOf(middle) < threshold {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
