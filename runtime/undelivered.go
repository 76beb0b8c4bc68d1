package shard

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/calls"
	"github.com/shardgen/shardgen/internal/stream"
	"github.com/shardgen/shardgen/internal/wire"
)

// lostTells are the tells of this process that were lost, by whether their methods
// may have run. It is safe for concurrent use.
type lostTells struct {
	unsent atomic.Int64 // they certainly did not run
	unsure atomic.Int64 // sent, and never acknowledged
}

// lose counts a lost tell.
func (l *lostTells) lose(all *counters, o calls.Outcome) {
	all.add(tellLost)
	l.note(o == calls.NotExecuted)
}

// note is lose for a tell that other counters have already.
func (l *lostTells) note(notExecuted bool) {
	if notExecuted {
		l.unsent.Add(1)
	} else {
		l.unsure.Add(1)
	}
}

// count counts the tells among the unacknowledged envelopes of a closed session.
func (l *lostTells) count(all *counters, left []stream.Unacknowledged) {
	for i := range left {
		if left[i].Envelope.Type != wire.TypeTell {
			continue
		}
		all.add(tellLost)
		l.note(left[i].NotExecuted)
	}
}

// since returns the error for the tells that were lost since the counts were unsent and
// unsure, or nil if there were none.
func (l *lostTells) since(unsent, unsure int64) error {
	unsent, unsure = l.unsent.Load()-unsent, l.unsure.Load()-unsure
	if unsent+unsure == 0 {
		return nil
	}
	return fmt.Errorf("%w before %d tells were delivered: %d did not run (not executed: their shards found no home, or refused them, or nothing could be sent), "+
		"%d may have run (outcome unknown: sent, and not acknowledged within %v)", ErrClosed, unsent+unsure, unsent, unsure, tellPatience)
}

// tellPatience is how long a connection that is being closed waits for the delivery of
// tells.
const tellPatience = 2 * time.Second
