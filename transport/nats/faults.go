package natstransport

import (
	"log/slog"
	"sync"
)

// faults logs failures of requests, of which there may be very many, ever more rarely for each caller.
type faults struct {
	log *slog.Logger

	mu sync.Mutex
	of map[string]uint64 // how many, by caller; "" means of no caller, and of callers beyond maxFaulty
}

// maxFaulty bounds the callers whose failures are counted apart.
const maxFaulty = 256

func (f *faults) warn(text string, args ...any) { f.warnOf("", text, args...) }

func (f *faults) warnOf(caller, text string, args ...any) {
	f.mu.Lock()
	if f.of == nil {
		f.of = map[string]uint64{}
	}
	if f.of[caller] == 0 && len(f.of) >= maxFaulty {
		caller = ""
	}
	f.of[caller]++
	n := f.of[caller]
	f.mu.Unlock()
	if powerOfTwo(n) {
		f.log.Warn(text, append(args, "count", n)...)
	}
}
