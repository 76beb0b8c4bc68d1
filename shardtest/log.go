package shardtest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// A testLog writes logs to the test's output, with the time since the test began. It drops lines
// after the test.
type testLog struct {
	begin  time.Time
	mu     sync.Mutex
	output io.Writer // nil: the test has ended
}

func newTestLog(t testing.TB, begin time.Time) *testLog {
	return &testLog{begin: begin, output: t.Output()}
}

func (l *testLog) handler() slog.Handler {
	return slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Duration("at", a.Value.Time().Sub(l.begin).Round(time.Microsecond))
		}
		return a
	}})
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.output == nil {
		return len(line), nil
	}
	return l.output.Write(line)
}

func (l *testLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.output = nil
}
