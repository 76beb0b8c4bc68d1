package memory

import (
	"slices"
	"time"
)

// A route is the channel and the receiver of a message. Messages of one route keep their order.
type route struct {
	from *channel
	to   string
}

// late has the delayed messages. The broker's mutex guards it.
type late struct {
	messages []lateMessage // in the order in which they are due
	last     map[route]time.Time
	timer    *time.Timer
}

type lateMessage struct {
	delivery
	due time.Time
}

// holds reports whether earlier messages on e's route are still delayed.
func (l *late) holds(e delivery) bool {
	_, ok := l.last[e.route()]
	return ok
}

// add delays e by d, or longer if earlier messages on its route are delayed longer. begin is called
// when messages are due, and must call deliver.
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
		return // the timer is for an earlier one
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(d, begin)
	} else {
		l.timer.Reset(time.Until(due))
	}
}

// drop loses all delayed messages.
func (l *late) drop() {
	l.messages = nil
	clear(l.last)
}

// deliver calls hand with each message that is due.
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
