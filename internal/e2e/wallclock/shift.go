//go:build shiftedclock

package wallclock

import (
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for the link to package time
)

// wallShift is a variable that [Build] adds to package time. Its time.Now adds that many seconds to the
// clock.
//
//go:linkname wallShift time.wallShift
var wallShift atomic.Int64

var mu sync.RWMutex // guards changes of wallShift

// Shift sets the wall clock of this process wrong by d, rounded to seconds. 0 sets it right.
func Shift(d time.Duration) error {
	mu.Lock()
	defer mu.Unlock()
	wallShift.Store(int64(d.Round(time.Second) / time.Second))
	return nil
}

// Now returns the time of the machine's wall clock, without a monotonic reading.
func Now() time.Time {
	mu.RLock()
	defer mu.RUnlock()
	return time.Now().Round(0).Add(-time.Duration(wallShift.Load()) * time.Second)
}
