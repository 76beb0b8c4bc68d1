package node

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// A LogLimiter drops most repetitions of log lines that calls or messages cause in loops. It logs
// the first, second, fourth, eighth and so on of similar lines. The zero value is ready for use. It
// is safe for concurrent use.
type LogLimiter struct {
	mu     sync.Mutex
	counts map[logKey]uint64
}

type logKey struct{ text, subject, method string }

// maxLogKeys bounds the keys of a LogLimiter, because other processes may invent subjects. Once
// there are so many keys, lines with new keys share one counter per text.
const maxLogKeys = 1024

func (l *LogLimiter) count(text, subject, method string) (n uint64, log bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := logKey{text, subject, method}
	n, known := l.counts[key]
	switch {
	case known:
	case len(l.counts) >= maxLogKeys:
		key = logKey{text: text}
		n = l.counts[key]
	default: // they may be parts of a message
		key = logKey{text, strings.Clone(subject), strings.Clone(method)}
	}
	if l.counts == nil {
		l.counts = map[logKey]uint64{}
	}
	n++
	l.counts[key] = n
	return n, n&(n-1) == 0
}

// Log logs a line unless the limiter drops it. The line's attribute "count" is the number of
// similar lines so far.
func (l *LogLimiter) Log(to *slog.Logger, level slog.Level, text, subject, method string, args ...any) {
	if n, log := l.count(text, subject, method); log {
		to.Log(context.Background(), level, text, append(args, "count", n)...)
	}
}

// Warn is Log at level Warn.
func (l *LogLimiter) Warn(to *slog.Logger, text, subject, method string, args ...any) {
	l.Log(to, slog.LevelWarn, text, subject, method, args...)
}

func (l *LogLimiter) error(to *slog.Logger, text, subject, method string, args ...any) {
	l.Log(to, slog.LevelError, text, subject, method, args...)
}
