//go:build !shiftedclock

package wallclock

import (
	"errors"
	"time"
)

// Shift sets the wall clock of this process wrong by d from now on, rounded to
// seconds. 0 sets it right.
func Shift(time.Duration) error {
	return errors.New("shift the wall clock: this program was not built by wallclock.Build")
}

// Now is the time by the machine's wall clock, without a monotonic reading.
func Now() time.Time { return time.Now().Round(0) }
