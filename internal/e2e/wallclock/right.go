//go:build !shiftedclock

package wallclock

import (
	"errors"
	"time"
)

// Shift fails: only a program that [Build] built can set its wall clock wrong.
func Shift(time.Duration) error {
	return errors.New("shift the wall clock: this program was not built by wallclock.Build")
}

// Now is the time by the machine's wall clock, without a monotonic reading.
func Now() time.Time { return time.Now().Round(0) }
