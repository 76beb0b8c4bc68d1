package gen

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to five times its live size, up to memoryLimit. By default the
// collector takes a third of a large first run, because most allocations live until its end.
const (
	gcPercent   = 400
	memoryLimit = 1 << 30
)

// Tune sets the garbage collector for a process that generates code and exits. GOGC and GOMEMLIMIT
// in the environment take precedence.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
