package turnwatch

import (
	"sync/atomic"
	"time"
)

// A Process has turns, which may have begun before anybody looked.
type Process interface {
	// UnderWay calls found for each turn under way, with the key that it has at [Watch.End].
	UnderWay(found func(key any, t Turn))
	// Has reports whether a turn with that key is under way.
	Has(key any) bool
}

// ReportOf returns the report of the Watch at a place, and puts one there if there is none.
func ReportOf(place *atomic.Pointer[Watch], p Process, now time.Time) Report {
	w := place.Load()
	if w == nil || w.over(now) {
		next := New(now)
		if place.CompareAndSwap(w, next) {
			w = next
			p.UnderWay(func(key any, t Turn) { w.adopt(key, t, now) })
		} else if w = place.Load(); w == nil {
			w = next // it counts nothing: another question has just ended
		}
	}
	w.review(p.Has)
	return w.Report(now)
}

// End takes the Watch away for which nobody asks any more.
func End(place *atomic.Pointer[Watch], now time.Time) {
	if w := place.Load(); w != nil && w.over(now) {
		place.CompareAndSwap(w, nil)
	}
}
