package failures

import (
	"container/list"
	"strings"
	"sync"
	"time"
)

// Bounds of a Log.
const (
	// Entities is how many entities have a place. If there are more, the one whose last failure is
	// the oldest loses its place.
	Entities = 1024
	// Each is how many failures an entity has; the oldest gives way.
	Each = 5
	// Lasts is how long a failure is kept.
	Lasts = time.Hour
)

// An Entity is the type and the id of an entity.
type Entity struct{ Kind, ID string }

// A Failure is a failed call.
type Failure struct {
	Method  string
	Outcome string // for people, without a value of the program
	At      time.Time
}

// A Log has the last failures of entities. The zero value is ready for use, and has no memory until a
// call fails. It is safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	of    map[Entity]*list.Element
	order list.List // of *entry, the latest first
}

// An entry has the failures of an entity in a ring.
type entry struct {
	entity Entity
	ring   [Each]Failure
	count  int // of all failures so far
}

func (e *entry) last() Failure { return e.ring[(e.count-1)%Each] }

// Note keeps a failure. The id of e is cloned if it is kept; all other strings are kept as they are.
func (l *Log) Note(e Entity, f Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(f.At)
	at := l.of[e]
	if at == nil {
		at = l.place(Entity{e.Kind, strings.Clone(e.ID)})
	}
	in := at.Value.(*entry)
	in.ring[in.count%Each] = f
	in.count++
	l.order.MoveToFront(at)
}

// place makes a place for an entity that has none. The caller has the lock.
func (l *Log) place(e Entity) *list.Element {
	if l.of == nil {
		l.of = map[Entity]*list.Element{}
	}
	if len(l.of) == Entities {
		l.remove(l.order.Back())
	}
	at := l.order.PushFront(&entry{entity: e})
	l.of[e] = at
	return at
}

// expire removes the entities whose failures have all expired. The caller has the lock.
func (l *Log) expire(now time.Time) {
	for at := l.order.Back(); at != nil && now.Sub(at.Value.(*entry).last().At) >= Lasts; at = l.order.Back() {
		l.remove(at)
	}
}

func (l *Log) remove(at *list.Element) { delete(l.of, l.order.Remove(at).(*entry).entity) }

// Of returns the failures of an entity that have not expired, the latest first.
func (l *Log) Of(e Entity, now time.Time) (found []Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	at := l.of[e]
	if at == nil {
		return nil
	}
	in := at.Value.(*entry)
	for i := in.count - 1; i >= max(0, in.count-Each); i-- {
		if f := in.ring[i%Each]; now.Sub(f.At) < Lasts {
			found = append(found, f)
		}
	}
	return found
}
