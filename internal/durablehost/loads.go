package durablehost

import "github.com/shardgen/shardgen/internal/durable"

// loads are the records that turns wait for. Several that are asked for at the same time
// are read together.
type loads struct {
	waits map[string]chan durable.Loaded
	queue []durable.Request // not sent yet
	under int               // reads under way
}

// Bounds of reading records: how many reads of a shard are under way, and how many records
// each has. A record may have 512 KiB.
const (
	maxReads    = 4
	maxTogether = 32
)

// wait has an entity delivered to got, which has room for it.
func (l *loads) wait(entity string, got chan durable.Loaded) {
	if l.waits == nil {
		l.waits = map[string]chan durable.Loaded{}
	}
	l.waits[entity] = got
}

func (l *loads) forget(entity string, got chan durable.Loaded) {
	if l.waits[entity] == got {
		delete(l.waits, entity)
	}
}

func (l *loads) done(loaded durable.Loaded) {
	if got := l.waits[loaded.Entity]; got != nil {
		delete(l.waits, loaded.Entity)
		got <- loaded
	}
}

// end closes all waiting reads.
func (l *loads) end() {
	for _, got := range l.waits {
		close(got)
	}
	l.waits, l.queue = nil, nil
}

// next takes the requests that are read together next, or none.
func (l *loads) next() (together []durable.Request) {
	if l.under == maxReads || len(l.queue) == 0 {
		return nil
	}
	n, seen := 0, map[string]bool{}
	for n < len(l.queue) && n < maxTogether && l.queue[n].AtLeast == l.queue[0].AtLeast && !seen[l.queue[n].IDs[0]] {
		seen[l.queue[n].IDs[0]] = true
		n++
	}
	together = append(together, l.queue[:n]...)
	l.queue = append(l.queue[:0], l.queue[n:]...)
	l.under++
	return together
}
