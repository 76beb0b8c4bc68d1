//go:build !shiftedclock

package wallclock

import (
	"errors"
	"time"
)

// Shift returns an error, because this program was not built by [Build].
func Shift(time.Duration) error {
	return errors.New("shift the wall clock: this program was not built by wallclock.Build")
}

// Now returns the time of the machine's wall clock, without a monotonic reading.
func Now() time.Time { return time.Now().Round(0) }
