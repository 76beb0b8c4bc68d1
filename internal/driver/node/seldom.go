package node

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// Seldom drops most repetitions of log lines that a loop of calls or messages repeats.
// The zero value is ready for use. It is safe for concurrent use.
type Seldom struct {
	counts sync.Map // of seldomKey: *atomic.Uint64; as many as the process has types and methods
}

// seldomKey has the fields that similar lines have in common.
type seldomKey struct{ text, kind, method string }

// tell counts a line, and reports whether to log it: the first, second, fourth, eighth
// and so on of similar lines. n is their number so far.
func (s *Seldom) tell(text, kind, method string) (n uint64, tell bool) {
	key := seldomKey{text, kind, method}
	count, ok := s.counts.Load(key)
	if !ok {
		count, _ = s.counts.LoadOrStore(key, new(atomic.Uint64))
	}
	n = count.(*atomic.Uint64).Add(1)
	return n, n&(n-1) == 0
}

// Log logs a line with "count", the number of similar lines so far, if tell reports true.
func (s *Seldom) Log(to *slog.Logger, level slog.Level, text, kind, method string, args ...any) {
	if n, tell := s.tell(text, kind, method); tell {
		to.Log(context.Background(), level, text, append(args, "count", n)...)
	}
}

func (s *Seldom) Warn(to *slog.Logger, text, kind, method string, args ...any) {
	s.Log(to, slog.LevelWarn, text, kind, method, args...)
}

func (s *Seldom) error(to *slog.Logger, text, kind, method string, args ...any) {
	s.Log(to, slog.LevelError, text, kind, method, args...)
}
