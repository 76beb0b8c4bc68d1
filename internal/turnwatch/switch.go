package turnwatch

import (
	"sync/atomic"
	"time"
)

// ReportOf returns the report of the Watch at a place, and puts one there if there is none.
func ReportOf(place *atomic.Pointer[Watch], now time.Time) Report {
	w := place.Load()
	if w == nil || w.over(now) {
		next := New(now)
		if place.CompareAndSwap(w, next) {
			w = next
		} else if w = place.Load(); w == nil {
			w = next // it counts nothing: another question has just ended
		}
	}
	return w.Report(now)
}

// End takes the Watch away for which nobody asks any more.
func End(place *atomic.Pointer[Watch], now time.Time) {
	if w := place.Load(); w != nil && w.over(now) {
		place.CompareAndSwap(w, nil)
	}
}
