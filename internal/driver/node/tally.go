package node

import (
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/measure"
)

type tally struct {
	refusals     *RefusalCounts // of the process
	meters       *Meters        // of the process
	kind         string
	activations  [codegen.Recovered + 1]atomic.Uint64
	passivations [codegen.Forgotten + 1]atomic.Uint64
	bytes        atomic.Uint64 // total size of the encoded states of passivated entities
	begun        atomic.Uint64 // number of moves away from this node that began
	committed    atomic.Uint64
	givenUp      atomic.Uint64
}

var _ shardhost.Watch = (*tally)(nil)

// MoveBegun counts the beginning of a move away from this node.
func (t *tally) MoveBegun() { t.begun.Add(1) }

// MoveEnded counts the end of a move away from this node. moved is false for a move that was given
// up.
func (t *tally) MoveEnded(moved bool, pause time.Duration) {
	if moved {
		t.committed.Add(1)
	} else {
		t.givenUp.Add(1)
	}
	t.meters.each(func(m *measure.Meter) {
		if m.MoveEnded != nil {
			m.MoveEnded(t.kind, moved, pause)
		}
	})
}

// Refused counts the cause of a refused call. Other counters count the call itself.
func (t *tally) Refused(code wire.Code) { t.refusals.note(code) }

func (t *tally) load(l *measure.Type) {
	l.Activations, l.Passivations = map[string]uint64{}, map[string]uint64{}
	for i := range t.activations {
		l.Activations[codegen.Activation(i).String()] = t.activations[i].Load()
	}
	for i := range t.passivations {
		l.Passivations[codegen.Passivation(i).String()] = t.passivations[i].Load()
	}
	l.PassivatedBytes = t.bytes.Load()
	l.MovesCommitted, l.MovesGivenUp = t.committed.Load(), t.givenUp.Load()
	l.MovesBegun = t.begun.Load() // last, so that it is not less than the others together
}

// LoadHosted fills in the numbers of a type that this node hosts.
func LoadHosted(t *measure.Type, h *Host) {
	for i := range h.Shards {
		s := &h.Shards[i]
		o, ok := s.Held()
		if !ok {
			continue
		}
		t.Shards[o.State.String()]++
		s.Mu.Lock()
		t.Entities += s.Core.Entities()
		t.Active += s.Core.Active()
		t.Opening += s.Core.Waiting()
		t.Queued += s.Core.Queued()
		t.WaitingBytes += int64(s.Core.Bytes())
		s.Mu.Unlock()
	}
	h.tally.load(t)
}
