//go:build !unix

package node

import "time"

// cpuTime returns the processor time that the process has used; 0 means that it is not known.
func cpuTime() time.Duration { return 0 }
