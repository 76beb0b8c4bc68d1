// Package impure does everything that a pure core must not.
package impure

import (
	"log/slog"
	"maps"
	"math/rand/v2"
	"os" // want "imports os"
	clock "time"
)

//arch:order-free
var counts = map[string]int{"a": 1} // want above "without a reason"

type owner struct {
	done chan struct{} // want "channel"
}

func (o owner) wait() {
	select { // want "select"
	case <-o.done:
	}
}

func impure() (names []string, n int) {
	slog.Info("")              // want "slog.Info"
	go os.Getpid()             // want "go statement"
	start := clock.Now()       // want "time.Now"
	clock.Sleep(1)             // want "time.Sleep"
	later := clock.After       // want "time.After"
	n = rand.IntN(3)           // want "global source"
	for name := range counts { // want "range over a map"
		names = append(names, name)
	}
	for name := range maps.Keys(counts) { // want "maps.Keys"
		names = append(names, name)
	}
	<-later(clock.Since(start)) // want "time.Since"
	owner{}.wait()
	return names, n
}

var _ = impure
