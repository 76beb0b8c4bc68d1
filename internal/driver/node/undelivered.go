package node

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/core/stream"
	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/wire"
)

// LostTells counts the lost tells of this process, by whether their methods may have run. It is
// safe for concurrent use.
type LostTells struct {
	Unsent atomic.Int64 // the tells that certainly did not run
	Unsure atomic.Int64 // the tells that were sent and never acknowledged
}

func (l *LostTells) lose(all *Counters, o calls.Outcome) {
	all.Add(tellLost)
	l.note(o == calls.NotExecuted)
}

func (l *LostTells) note(notExecuted bool) {
	if notExecuted {
		l.Unsent.Add(1)
	} else {
		l.Unsure.Add(1)
	}
}

func (l *LostTells) count(all *Counters, left []stream.Unacknowledged) {
	for i := range left {
		if left[i].Envelope.Type != wire.TypeTell {
			continue
		}
		all.Add(tellLost)
		l.note(left[i].NotExecuted)
	}
}

// Since returns an error if more tells were lost than earlier counts show, and nil otherwise.
// unsent and unsure are the earlier counts.
func (l *LostTells) Since(unsent, unsure int64) error {
	unsent, unsure = l.Unsent.Load()-unsent, l.Unsure.Load()-unsure
	if unsent+unsure == 0 {
		return nil
	}
	return fmt.Errorf("%w before %d tells were delivered: %d did not run (not executed: their shards found no home, or refused them, or nothing could be sent), "+
		"%d may have run (outcome unknown: sent, and not acknowledged within %v)", ErrClosed, unsent+unsure, unsent, unsure, TellPatience)
}

// TellPatience is how long a connection that is being closed waits for the delivery of tells.
const TellPatience = 2 * time.Second
