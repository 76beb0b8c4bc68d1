package durablehost

import (
	"slices"

	"github.com/shardgen/shardgen/internal/durable"
)

// An aftermath has the effects of a change of a tenure's core that need the tenure's lock to be
// free. The zero value has none.
type aftermath struct {
	append  *durable.Request // to be sent by the goroutine that has it; nil means none
	logged  []wait           // the log has what they wait for
	doubted []wait           // they end with why
	why     error
	rest    []func()
	touched byte // the sum of Touch, so that its reads are not removed
}

func (a *aftermath) add(f func()) { a.rest = append(a.rest, f) }

// touchedWaiters is for how many of those that wait memory is read at a time: few enough for the
// processor's nearest cache.
const touchedWaiters = 16

// run carries the effects out, without the lock. Where thousands have waited, their memory is in no
// cache. It is read for several of them first, so that the processor waits for all of it at once.
func (a *aftermath) run(t *Tenure) {
	if a.append != nil {
		t.beginAppend(a.append)
	}
	for all := range slices.Chunk(a.logged, touchedWaiters) {
		for _, w := range all {
			a.touched += w.Touch()
		}
		for _, w := range all {
			w.Logged(nil)
		}
	}
	for _, w := range a.doubted {
		w.Logged(a.why)
	}
	for _, f := range a.rest {
		f()
	}
}
