//go:build unix

package node

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that the process has used; 0 means that it is not known.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
