package durablehost

import (
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
}

func (a *aftermath) add(f func()) { a.rest = append(a.rest, f) }

// run carries the effects out, without the lock.
func (a *aftermath) run(t *Tenure) {
	if a.append != nil {
		t.beginAppend(a.append)
	}
	for _, w := range a.logged {
		w.Logged(nil)
	}
	for _, w := range a.doubted {
		w.Logged(a.why)
	}
	for _, f := range a.rest {
		f()
	}
}
