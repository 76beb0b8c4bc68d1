package control

import (
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A quarantine notices members that answer heartbeats and owe the coordinator an answer for
// too long, although it is asked for again and again.
type quarantine struct {
	since map[transport.Address]time.Time // when it was first seen that a member owes an answer
}

// look takes the members that owe an answer now, and returns those that have owed one for
// at least the time after.
func (q *quarantine) look(owing []transport.Address, after time.Duration, now time.Time) (late []transport.Address) {
	owed := make(map[transport.Address]time.Time, len(owing))
	for _, node := range owing {
		since, ok := q.since[node]
		if !ok {
			since = now
		}
		owed[node] = since
	}
	q.since = owed
	for _, node := range owing {
		if now.Sub(owed[node]) >= after {
			delete(q.since, node)
			late = append(late, node)
		}
	}
	return late
}
