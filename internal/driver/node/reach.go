package node

import (
	"sync"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Reach records since when each channel has had no connection to the broker. It is safe
// for concurrent use.
type Reach struct {
	mu    sync.Mutex
	since map[transport.Channel]time.Time
}

func (r *Reach) Note(ch transport.Channel, connected bool, now time.Time) {
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

// Away returns the longest time for which one of the channels has had no connection; 0
// if all have one.
func (r *Reach) Away(now time.Time, channels ...transport.Channel) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ch := range channels {
		if since, ok := r.since[ch]; ok {
			longest = max(longest, now.Sub(since), time.Millisecond)
		}
	}
	return longest
}
