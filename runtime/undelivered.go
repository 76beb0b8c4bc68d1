package shard

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/shardgen/shardgen/internal/call"
	"github.com/shardgen/shardgen/internal/wire"
)

// tellPatience is how long a connection that is closed waits until tells have arrived.
const tellPatience = 2 * time.Second

// lostTells are the tells of this process that were lost, by whether their methods
// may have run. It is safe for concurrent use.
type lostTells struct {
	unsent atomic.Int64 // they certainly did not run
	unsure atomic.Int64 // sent, and never acknowledged
}

// loseTell counts a tell that is lost.
func (pl *plane) loseTell(o Outcome) {
	pl.counters.add(tellLost)
	if o == NotExecuted {
		pl.lost.unsent.Add(1)
	} else {
		pl.lost.unsure.Add(1)
	}
}

// count counts the tells among the unacknowledged envelopes of a closed session.
func (l *lostTells) count(led *counters, left []call.Unacknowledged) {
	for i := range left {
		if left[i].Envelope.Type != wire.TypeTell {
			continue
		}
		led.add(tellLost)
		if left[i].NotExecuted {
			l.unsent.Add(1)
		} else {
			l.unsure.Add(1)
		}
	}
}

// since is the error for the tells that were lost since there were unsent and unsure
// of them, nil for none.
func (l *lostTells) since(unsent, unsure int64) error {
	unsent, unsure = l.unsent.Load()-unsent, l.unsure.Load()-unsure
	if unsent+unsure == 0 {
		return nil
	}
	return fmt.Errorf("%w before %d tells were delivered: %d did not run (not executed: their shards found no home, or refused them, or nothing could be sent), "+
		"%d may have run (outcome unknown: sent, and not acknowledged within %v)", ErrClosed, unsent+unsure, unsent, unsure, tellPatience)
}

// expireTells drops tells that found no home in time; calls end by themselves.
func (pl *plane) expireTells() { pl.dropTells(time.Now().Add(-pl.cfg.CallTimeout)) }

// dropTells drops the tells that wait for a home since before limit, and counts them.
func (pl *plane) dropTells(limit time.Time) (dropped int) {
	if pl.held.Load() == 0 {
		return 0
	}
	for name, k := range *pl.kinds.Load() {
		n := 0
		for i := range k.routes {
			n += k.routes[i].dropTells(limit)
		}
		if n > 0 {
			pl.counters.addN(tellLost, n)
			pl.lost.unsent.Add(int64(n))
			pl.log.Warn("tells dropped: their shards found no home", "kind", name, "tells", n, "why", pl.ctl.why(name, time.Now()))
		}
		dropped += n
	}
	return dropped
}

// settleTells waits until tells have arrived, or until ctx ends if they have no home. A
// tell that was only sent may still come back, from a node that is not its home any more.
func (pl *plane) settleTells(ctx context.Context) {
	for pl.hasUnsettled() && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // the lanes and the control loop go on
	}
	pl.dropTells(time.Now())
}

// hasUnsettled reports whether tells wait for a home, or anything for its peer's
// acknowledgement.
func (pl *plane) hasUnsettled() bool {
	for _, k := range *pl.kinds.Load() {
		for i := 0; i < len(k.routes) && pl.held.Load() > 0; i++ {
			if k.routes[i].holdsTells() {
				return true
			}
		}
	}
	for _, p := range pl.peers.All() {
		if p.Unsettled() {
			return true
		}
	}
	return false
}
