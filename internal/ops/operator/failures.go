package operator

import (
	"container/list"
	"strings"
	"sync"
	"time"
)

const (
	// maxFailed bounds the entities with failures. A further one replaces the one that failed least
	// recently.
	maxFailed    = 1024
	failuresEach = 5
	failureLasts = time.Hour
)

type failed struct {
	method, outcome string
	at              time.Time
}

// A FailureLog keeps the last failures of entities. The zero value is ready for use, and allocates
// nothing until a call fails. It is safe for concurrent use.
type FailureLog struct {
	mu    sync.Mutex
	of    map[EntityID]*list.Element
	order list.List // of *failedEntity, the latest first
}

type failedEntity struct {
	entity EntityID
	ring   [failuresEach]failed
	count  int // of all failures so far
}

func (e *failedEntity) last() failed { return e.ring[(e.count-1)%failuresEach] }

// Note records a failure of entity e. outcome must not contain data of the user's program. The id
// and the method are cloned.
func (l *FailureLog) Note(e EntityID, method, outcome string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	at := l.of[e]
	if at == nil {
		at = l.place(EntityID{e.Kind, strings.Clone(e.ID)})
	}
	in := at.Value.(*failedEntity)
	in.ring[in.count%failuresEach] = failed{strings.Clone(method), outcome, now}
	in.count++
	l.order.MoveToFront(at)
}

// place adds an entity that is not in the log, removing the oldest if full. The caller must hold
// l.mu.
func (l *FailureLog) place(e EntityID) *list.Element {
	if l.of == nil {
		l.of = map[EntityID]*list.Element{}
	}
	if len(l.of) == maxFailed {
		l.remove(l.order.Back())
	}
	at := l.order.PushFront(&failedEntity{entity: e})
	l.of[e] = at
	return at
}

// expire removes entities without recent failures. The caller must hold l.mu.
func (l *FailureLog) expire(now time.Time) {
	for at := l.order.Back(); at != nil && now.Sub(at.Value.(*failedEntity).last().at) >= failureLasts; at = l.order.Back() {
		l.remove(at)
	}
}

func (l *FailureLog) remove(at *list.Element) {
	delete(l.of, l.order.Remove(at).(*failedEntity).entity)
}

// Of returns the failures of an entity that have not expired, the latest first.
func (l *FailureLog) Of(e EntityID, now time.Time) (found []Failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	at := l.of[e]
	if at == nil {
		return nil
	}
	in := at.Value.(*failedEntity)
	for i := in.count - 1; i >= max(0, in.count-failuresEach); i-- {
		if f := in.ring[i%failuresEach]; now.Sub(f.at) < failureLasts {
			found = append(found, Failure{f.method, f.outcome, now.Sub(f.at)})
		}
	}
	return found
}
