package node

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/peers"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/measure"
)

// Meters are the meters of a process. They are safe for concurrent use.
type Meters struct {
	all atomic.Pointer[[]*measure.Meter] // nil: none
	mu  sync.Mutex                       // held while all is replaced
}

func (s *Meters) each(f func(*measure.Meter)) {
	if all := s.all.Load(); all != nil {
		for _, m := range *all {
			f(m)
		}
	}
}

// change replaces the list of meters, and returns its new length.
func (s *Meters) change(f func([]*measure.Meter) []*measure.Meter) int {
	var all []*measure.Meter
	if old := s.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = f(all); len(all) == 0 {
		s.all.Store(nil)
	} else {
		s.all.Store(&all)
	}
	return len(all)
}

// Add adds a meter, which stop removes. Appends and frames are reported only while there is a
// meter.
func (s *Meters) Add(m *measure.Meter, appends *durablehost.Measured, frames *peers.Set) (stop func()) {
	change := func(f func([]*measure.Meter) []*measure.Meter) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.change(f) == 0 {
			appends.By(nil)
			frames.SetSent(nil)
		} else {
			appends.By(s.appended)
			frames.SetSent(s.frameSent)
		}
	}
	change(func(all []*measure.Meter) []*measure.Meter { return append(all, m) })
	return func() {
		change(func(all []*measure.Meter) []*measure.Meter {
			return slices.DeleteFunc(all, func(o *measure.Meter) bool { return o == m })
		})
	}
}

func (s *Meters) appended(a durablehost.Appended) {
	s.each(func(m *measure.Meter) {
		if m.StoreAppend != nil {
			m.StoreAppend(measure.Append{Kind: a.Type, Commits: a.Commits, Bytes: a.Bytes, Took: a.Took, Err: a.Err})
		}
	})
}

func (s *Meters) fired(kind string, late time.Duration) {
	s.each(func(m *measure.Meter) {
		if m.ReminderFired != nil {
			m.ReminderFired(kind, late)
		}
	})
}

func (s *Meters) frameSent(frame []byte) {
	h, _, err := new(wire.FrameReader).Header(frame)
	if err != nil || h.Count == 0 {
		return
	}
	s.each(func(m *measure.Meter) {
		if m.FrameSent != nil {
			m.FrameSent(int(h.Count), len(frame))
		}
	})
}
