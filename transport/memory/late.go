package memory

import (
	"slices"
	"time"
)

// A route leads from a channel to a node. Its messages keep their order.
type route struct {
	from *channel
	to   string
}

// late has delayed messages, guarded by the broker's mutex.
type late struct {
	messages []lateMessage // in the order in which they are due
	last     map[route]time.Time
	timer    *time.Timer
}

type lateMessage struct {
	delivery
	due time.Time
}

func (l *late) holds(e delivery) bool {
	_, ok := l.last[e.route()]
	return ok
}

// add delays e by the duration d. If an earlier message of its route is due later, e is due at the
// same time as that message. When a message is due, the timer calls begin, which must call deliver.
func (l *late) add(e delivery, d time.Duration, begin func()) {
	due, r := time.Now().Add(d), e.route()
	if last := l.last[r]; due.Before(last) {
		due = last
	}
	if l.last == nil {
		l.last = map[route]time.Time{}
	}
	l.last[r] = due
	i := len(l.messages)
	for i > 0 && l.messages[i-1].due.After(due) {
		i--
	}
	l.messages = slices.Insert(l.messages, i, lateMessage{e, due})
	if i > 0 {
		return // the timer is set for an earlier message
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(d, begin)
	} else {
		l.timer.Reset(time.Until(due))
	}
}

func (l *late) drop() {
	l.messages = nil
	clear(l.last)
}

func (l *late) deliver(now time.Time, hand func(delivery)) {
	n := 0
	for ; n < len(l.messages) && !l.messages[n].due.After(now); n++ {
		e := l.messages[n].delivery
		if r := e.route(); !l.last[r].After(l.messages[n].due) {
			delete(l.last, r)
		}
		hand(e)
	}
	l.messages = slices.Delete(l.messages, 0, n)
	if len(l.messages) > 0 {
		l.timer.Reset(l.messages[0].due.Sub(now))
	}
}
