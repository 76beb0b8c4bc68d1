package durablehost

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// An Appended is the end of one append to a log.
type Appended struct {
	Type    string // of the shard's entities
	Commits int    // that it had; 0 means it was a claim
	Bytes   int
	Took    time.Duration // from the request to the store's answer
	Err     error         // why the store has not confirmed it; nil means it has
}

// Measured has the appends of a process measured. The zero value measures none. It is safe for
// concurrent use.
type Measured struct {
	by atomic.Pointer[func(Appended)]
}

// By has f called at the end of each append, until it is called again; nil ends that. f must not
// block, and is called by several goroutines at once.
func (m *Measured) By(f func(Appended)) {
	if f == nil {
		m.by.Store(nil)
		return
	}
	m.by.Store(&f)
}

// begun returns the time if appends are measured, or else the zero time, without a look at the clock.
func (m *Measured) begun() (at time.Time) {
	if m.by.Load() != nil {
		at = time.Now()
	}
	return at
}

// ended reports an append that began at a time of begun.
func (m *Measured) ended(s store.Shard, r *durable.Request, began time.Time, err error) {
	if f := m.by.Load(); f != nil && !began.IsZero() {
		(*f)(Appended{s.Type, r.Commits, len(r.Data), time.Since(began), err})
	}
}
