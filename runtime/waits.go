package shard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/peers"
	"github.com/shardgen/shardgen/transport"
)

// Reasons why calls without a home wait, worded when one has failed.

// reach is since when channels have had no connection to the broker. It is safe for
// concurrent use.
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

// away is for how long one of the channels has had no connection; 0: all have one.
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

// silence is for how long a peer has sent nothing on the session, for errors; "" if that is
// short, or nothing ever came.
func silence(p *peers.Session, now time.Time) string {
	if d := p.Silence(now); d >= silenceTold {
		return fmt.Sprintf(", which has been silent for %v", d.Round(100*time.Millisecond))
	}
	return ""
}

// silenceTold is from when on the silence of a home is told.
const silenceTold = time.Second

// errPassed is the cause of a call whose deadline was over before it could be sent.
var errPassed = errors.New("its deadline had passed before it was sent")
