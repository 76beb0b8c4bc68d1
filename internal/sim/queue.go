package sim

import (
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

type eventKind uint8

const (
	eventCall    eventKind = iota // call a function
	eventUnicast                  // a message arrives at, or near, its receiver
	eventFan                      // a broadcast reaches one server, which hands it to all its nodes
	eventInput                    // the node's driver has an input for the node
	eventSync                     // a server learns whether a node listens
	eventRedial                   // a node without a connection tries again
)

// event happens at a virtual time. Its kind decides which fields are used.
type event struct {
	kind     eventKind
	from, to *Node
	// sender and receiver are the numbers of the connections at both ends.
	sender, receiver uint32
	size             int32         // of the payload, in bytes
	hub              time.Duration // when the message is at the sender's server
	server, target   *Server       // the sender's server, and the server to which the message goes
	msg              membership.Message
	in               membership.Input
	call             func()
}

// queue has the events ordered by time, then by the order of put. It is a 4-ary heap of small
// items, which refer to events in reused slots.
type queue struct {
	items []item
	slots []event
	free  []int32
	seq   uint64
}

type item struct {
	at   time.Duration
	seq  uint64
	slot int32
}

func (a item) before(b item) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (q *queue) next() (at time.Duration, ok bool) {
	if len(q.items) == 0 {
		return 0, false
	}
	return q.items[0].at, true
}

// put adds an event and returns it. The caller must fill it in before the next put.
func (q *queue) put(at time.Duration, kind eventKind) *event {
	var slot int32
	if n := len(q.free); n > 0 {
		slot = q.free[n-1]
		q.free = q.free[:n-1]
	} else {
		q.slots = append(q.slots, event{})
		slot = int32(len(q.slots) - 1)
	}
	q.seq++
	q.items = append(q.items, item{at, q.seq, slot})
	q.up(len(q.items) - 1)
	e := &q.slots[slot]
	e.kind = kind
	return e
}

func (q *queue) take() (time.Duration, event) {
	first := q.items[0]
	last := len(q.items) - 1
	q.items[0] = q.items[last]
	q.items = q.items[:last]
	if last > 0 {
		q.down(0)
	}
	e := q.slots[first.slot]
	q.slots[first.slot] = event{}
	q.free = append(q.free, first.slot)
	return first.at, e
}

func (q *queue) up(i int) {
	it := q.items[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !it.before(q.items[parent]) {
			break
		}
		q.items[i] = q.items[parent]
		i = parent
	}
	q.items[i] = it
}

func (q *queue) down(i int) {
	it := q.items[i]
	for {
		child := 4*i + 1
		if child >= len(q.items) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(q.items)); c++ {
			if q.items[c].before(q.items[least]) {
				least = c
			}
		}
		if !q.items[least].before(it) {
			break
		}
		q.items[i] = q.items[least]
		i = least
	}
	q.items[i] = it
}
