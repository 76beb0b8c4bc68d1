package shard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/transport"
)

// Reasons why calls without a home wait. Their texts are made when a call has failed.

// reach records since when each channel has had no connection to the broker. It is safe
// for concurrent use.
type reach struct {
	mu    sync.Mutex
	since map[transport.Channel]time.Time
}

func (r *reach) note(ch transport.Channel, connected bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if connected {
		delete(r.since, ch)
		return
	}
	if r.since == nil {
		r.since = map[transport.Channel]time.Time{}
	}
	if _, ok := r.since[ch]; !ok {
		r.since[ch] = now
	}
}

// away returns the longest time for which one of the channels has had no connection; 0
// if all have one.
func (r *reach) away(now time.Time, channels ...transport.Channel) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ch := range channels {
		if since, ok := r.since[ch]; ok {
			longest = max(longest, now.Sub(since), time.Millisecond)
		}
	}
	return longest
}

// silence describes for how long a peer has sent nothing on the session, for error texts.
// It is "" if that time is short, or if nothing ever came.
func silence(p *peers.Session, now time.Time) string {
	if d := p.Silence(now); d >= silenceTold {
		return fmt.Sprintf(", which has been silent for %v", d.Round(100*time.Millisecond))
	}
	return ""
}

// silenceTold is the shortest silence of a home that error texts mention.
const silenceTold = time.Second

// errPassed is the error of a call whose deadline was over before it could be sent.
var errPassed = errors.New("its deadline had passed before it was sent")
