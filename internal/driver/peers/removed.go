package peers

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

const (
	// removedFor is how long a removed process is recorded. None of its messages can arrive later:
	// once its lease is over, at most seconds after the removal, it publishes no call or answer. Its
	// earlier messages wait in a broker for minutes at most, because a broker closes connections
	// that do not read. A process that stood still between checking its lease and sending has lost
	// its connection by then. Clients are not recorded, because they may come back.
	removedFor = 24 * time.Hour
	// maxRemoved bounds the recorded processes; the latest are kept. So many removals take far
	// longer than any message is on its way, and membership keeps fewer tombstones.
	maxRemoved = 4096
)

// removed records the processes that left the cluster or were removed from it. They get no session
// again. The zero value is empty. Its user guards it with a lock.
type removed struct {
	at    map[transport.Address]time.Time
	order []transport.Address // the keys of at, the oldest record first
}

func (r *removed) has(a transport.Address) bool {
	_, ok := r.at[a]
	return ok
}

// add records the removal of a, and drops old records.
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

// forget removes the record of a.
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
