package natstransport

import (
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Bounds of one line: the number of its messages, and their bytes.
const (
	maxLineLength = queueLength / 4
	maxLineBytes  = 16 << 20
)

// A fairQueue holds received messages until they are read. It has one line for each name of a
// client or operator, and one for members and the broker together. The lines take turns, so a name
// that floods the channel delays each other name by one message, and loses only messages of its
// own. Messages of one sender stay in order. Only the receiving goroutine uses it, except for
// dropped.
type fairQueue struct {
	lines   map[string]*line // those with messages
	turns   []*line          // the same: turns[next] is served next
	next    int
	n       int
	spare   *line
	dropped atomic.Uint64
}

// A line has the waiting messages of one name, in order.
type line struct {
	name     string
	messages []*nats.Msg // messages[head:] wait
	head     int
	bytes    int
}

// add appends a message to the line of a name; "" is the line of members and the broker. It reports
// false if the message was dropped.
func (q *fairQueue) add(name string, m *nats.Msg) bool {
	l := q.lines[name]
	if l == nil {
		l = q.open(name)
	}
	if n := len(l.messages) - l.head; name != "" && n > 0 && (n >= maxLineLength || l.bytes+len(m.Data) > maxLineBytes) {
		q.dropped.Add(1)
		return false
	}
	if l.head > 64 && l.head*2 > len(l.messages) {
		n := copy(l.messages, l.messages[l.head:])
		clear(l.messages[n:])
		l.messages, l.head = l.messages[:n], 0
	}
	l.messages = append(l.messages, m)
	l.bytes += len(m.Data)
	q.n++
	return true
}

func (q *fairQueue) open(name string) *line {
	l := q.spare
	if q.spare = nil; l == nil {
		l = &line{}
	}
	l.name = name
	if q.lines == nil {
		q.lines = map[string]*line{}
	}
	q.lines[name] = l
	q.turns = append(q.turns, l)
	return l
}

// take removes the first message of the line whose turn it is. At least one line must have a
// message.
func (q *fairQueue) take() *nats.Msg {
	if q.next >= len(q.turns) {
		q.next = 0
	}
	l := q.turns[q.next]
	m := l.messages[l.head]
	l.messages[l.head] = nil
	l.head++
	l.bytes -= len(m.Data)
	q.n--
	if l.head < len(l.messages) {
		q.next++
		return m
	}
	delete(q.lines, l.name)
	last := len(q.turns) - 1
	copy(q.turns[q.next:], q.turns[q.next+1:])
	q.turns[last] = nil
	q.turns = q.turns[:last]
	*l = line{messages: l.messages[:0]}
	if cap(l.messages) <= 1024 {
		q.spare = l
	}
	return m
}

// nameOf returns the class and name of the client or operator that sent a message, as in the
// message's subject, or "" for members and the broker.
func nameOf(m *nats.Msg, c *channel) string {
	i := len(c.subjects.prefix)
	if m.Sub == nil || len(m.Subject) < i+2 || m.Subject[i+1] != '.' {
		return ""
	}
	if class := m.Subject[i : i+1]; class != wordClient && class != wordOperator {
		return ""
	}
	if end := strings.IndexByte(m.Subject[i+2:], '.'); end >= 0 {
		return m.Subject[i : i+2+end]
	}
	return ""
}

// maxGathered bounds the messages in all lines. Further messages wait in the channel.
const maxGathered = 2 * queueLength

// gather puts m and all messages behind it into their lines, and returns the next message in turn,
// or nil if there is none.
func gather(m *nats.Msg, c *channel) *nats.Msg {
	if m != nil {
		lineUp(m, c)
	}
	for c.fair.n < maxGathered {
		select {
		case m = <-c.messages:
			lineUp(m, c)
			continue
		default:
		}
		break
	}
	if c.fair.n == 0 {
		return nil
	}
	return c.fair.take()
}

// lineUp puts a message into the line of its sender's name.
func lineUp(m *nats.Msg, c *channel) {
	name := nameOf(m, c)
	if c.fair.add(name, m) {
		return
	}
	if n := c.crowded.Add(1); powerOfTwo(n) {
		c.log.Error("received messages dropped: too many of one name wait", "from", name, "dropped", c.countDropped(), "queue", maxLineLength, "count", n)
	}
}
