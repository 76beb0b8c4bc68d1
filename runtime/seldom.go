package shard

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// seldom thins out lines of the log that a loop of calls or messages repeats. The zero
// value has seen none. It is safe for concurrent use.
type seldom struct {
	counts sync.Map // of seldomKey: *atomic.Uint64; as many as the process has types and methods
}

// seldomKey has the fields in which similar lines are equal.
type seldomKey struct{ text, kind, method string }

// tell counts one more line, and reports whether it is to be logged: the first, second,
// fourth, eighth and so on of those that are alike; n is how many there were.
func (s *seldom) tell(text, kind, method string) (n uint64, tell bool) {
	key := seldomKey{text, kind, method}
	count, ok := s.counts.Load(key)
	if !ok {
		count, _ = s.counts.LoadOrStore(key, new(atomic.Uint64))
	}
	n = count.(*atomic.Uint64).Add(1)
	return n, n&(n-1) == 0
}

// log logs a line that others may be like, with how many there were as "count", when tell
// says so.
func (s *seldom) log(to *slog.Logger, level slog.Level, text, kind, method string, args ...any) {
	if n, tell := s.tell(text, kind, method); tell {
		to.Log(context.Background(), level, text, append(args, "count", n)...)
	}
}

func (s *seldom) warn(to *slog.Logger, text, kind, method string, args ...any) {
	s.log(to, slog.LevelWarn, text, kind, method, args...)
}

func (s *seldom) error(to *slog.Logger, text, kind, method string, args ...any) {
	s.log(to, slog.LevelError, text, kind, method, args...)
}
