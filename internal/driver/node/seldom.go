package node

import (
	"context"
	"log/slog"
	"strings"
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

// thinned drops most of the log lines that a process of some name causes, by the name: a flood of
// one name does not hide the lines about others. The zero value is ready for use. It is safe for
// concurrent use.
type thinned struct {
	mu     sync.Mutex
	counts map[thinnedKey]uint64
}

type thinnedKey struct {
	what Reason
	name string
}

// maxThinned bounds the names and reasons that are told apart. Further ones count together.
const maxThinned = 1024

// tell counts a line, and reports whether to log it: the first, second, fourth, eighth and so on of
// a reason and a name. n is their number so far.
func (t *thinned) tell(what Reason, name string) (n uint64, tell bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := thinnedKey{what, name}
	n, known := t.counts[key]
	switch {
	case known:
	case len(t.counts) >= maxThinned:
		key.name = ""
		n = t.counts[key]
	default:
		key.name = strings.Clone(name) // it may be a part of a message
	}
	if t.counts == nil {
		t.counts = map[thinnedKey]uint64{}
	}
	n++
	t.counts[key] = n
	return n, n&(n-1) == 0
}
