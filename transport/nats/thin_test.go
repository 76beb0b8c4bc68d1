package natstransport

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// lineCounter is a slog handler that counts lines by message, and records lines with a key twice.
type lineCounter struct {
	*lineCounts
	keys []string
}

type lineCounts struct {
	mu    sync.Mutex
	lines map[string]int
	twice []string
}

func (c lineCounter) Enabled(context.Context, slog.Level) bool { return true }
func (c lineCounter) WithGroup(string) slog.Handler            { return c }

func (c lineCounter) WithAttrs(attrs []slog.Attr) slog.Handler {
	keys := append([]string(nil), c.keys...)
	for _, a := range attrs {
		keys = append(keys, a.Key)
	}
	return lineCounter{c.lineCounts, keys}
}

func (c lineCounter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[r.Message]++
	seen := map[string]bool{}
	note := func(key string) {
		if seen[key] {
			c.twice = append(c.twice, r.Message+": "+key)
		}
		seen[key] = true
	}
	for _, k := range c.keys {
		note(k)
	}
	r.Attrs(func(a slog.Attr) bool {
		note(a.Key)
		return true
	})
	return nil
}

// TestErrorsInALoopAreThinned: an event that happens a thousand times is logged in ten lines, with
// a count. No line has "node" twice, although the node's logger adds it.
func TestErrorsInALoopAreThinned(t *testing.T) {
	lines := lineCounter{lineCounts: &lineCounts{lines: map[string]int{}}}
	l := newLink(transport.Options{
		Cluster: "test", Self: transport.Address{Name: "a", Incarnation: 1}, Lanes: 1,
		Logger: slog.New(lines).With("node", "a"),
	}, nats.Options{})
	defer l.cancel()
	c := l.channels[0]
	s := &connection{}
	c.connection.Store(s)
	for range 1000 {
		c.asyncError(s, &nats.Subscription{Subject: "x"}, nats.ErrSlowConsumer)
		c.asyncError(s, nil, nats.ErrPermissionViolation)
		c.asyncError(s, nil, errors.New("other"))
	}
	l.outage.lost(c.id, "server", nil)
	l.outage.restored(c.id, "server")
	for text, want := range map[string]int{
		"received messages dropped: the queue is full": 10, "broker denied a subject": 10, "broker error": 10,
		"broker connections lost and restored": 1,
	} {
		if got := lines.lines[text]; got != want {
			t.Errorf("%s: got %d lines, want %d", text, got, want)
		}
	}
	if len(lines.twice) > 0 {
		t.Errorf("%d lines have a key twice, the first: %s", len(lines.twice), lines.twice[0])
	}
}
