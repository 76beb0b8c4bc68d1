package peers

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

const (
	// removedFor is how long a removed process is recorded. After that none of its messages can
	// arrive: it publishes nothing without its lease. A process that stood still after checking the
	// lease has lost its connection, and a broker keeps messages only for minutes. Clients are not
	// recorded, because they may come back.
	removedFor = 24 * time.Hour
	// maxRemoved bounds the recorded processes. So many removals take longer than any message takes
	// to arrive.
	maxRemoved = 4096
)

// removed records the processes that left or were removed. A recorded process gets no new session.
// The user of removed guards it with a lock.
type removed struct {
	at    map[transport.Address]time.Time
	order []transport.Address // the keys of at, the oldest record first
}

func (r *removed) has(a transport.Address) bool {
	_, ok := r.at[a]
	return ok
}

func (r *removed) add(a transport.Address, now time.Time) {
	if r.has(a) {
		return
	}
	if r.at == nil {
		r.at = map[transport.Address]time.Time{}
	}
	r.at[a] = now
	r.order = append(r.order, a)
	first := 0
	for ; first < len(r.order); first++ {
		if len(r.order)-first <= maxRemoved && now.Sub(r.at[r.order[first]]) < removedFor {
			break
		}
		delete(r.at, r.order[first])
	}
	r.order = r.order[first:] // append copies the remaining elements when the array is full
}

func (r *removed) forget(a transport.Address) {
	if !r.has(a) {
		return
	}
	delete(r.at, a)
	for i := range r.order {
		if r.order[i] == a {
			r.order = append(r.order[:i], r.order[i+1:]...)
			return
		}
	}
}
