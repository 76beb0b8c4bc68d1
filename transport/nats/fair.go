package natstransport

import (
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

const (
	maxLineLength = queueLength / 4
	maxLineBytes  = 16 << 20
)

// A fairQueue has a queue (line) for each client's or operator's name, and one for members and the
// broker. take serves the lines in turn, so a flooding name delays others by one message and loses
// only its own messages. A sender's messages stay in order. Only the receiving goroutine uses it,
// except for dropped.
type fairQueue struct {
	lines   map[string]*line // lines with messages
	turns   []*line          // the same lines: turns[next] is served next
	next    int
	n       int
	spare   *line
	dropped atomic.Uint64
}

type line struct {
	name     string
	messages []*nats.Msg // messages[head:] wait
	head     int
	bytes    int
}

// add appends m to name's line, or returns false if it dropped m. The name "" stands for members
// and the broker.
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

// take removes the next message. There must be one.
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

// nameOf returns the class and name of the client or operator that sent m, or "" for other senders.
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

// gather adds m and the messages waiting behind it to the lines. It returns the next message in
// turn, or nil.
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

func lineUp(m *nats.Msg, c *channel) {
	name := nameOf(m, c)
	if c.fair.add(name, m) {
		return
	}
	if n := c.crowded.Add(1); powerOfTwo(n) {
		c.log.Error("received messages dropped: too many of one name wait", "from", name, "dropped", c.countDropped(), "queue", maxLineLength, "count", n)
	}
}
