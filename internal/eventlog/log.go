package eventlog

import (
	"cmp"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/bounded"
)

// Bounds of a Log.
const (
	// Kept is how many lines of either kind a Log keeps: with MaxBytes, at most about 5 MiB.
	Kept = 2048
	// MaxBytes is the length of a line's attributes, which are clipped there.
	MaxBytes = 1000
)

// A Line is one line of a log.
type Line struct {
	Seq   uint64 // lines of a Log are numbered from 1
	Time  time.Time
	Level slog.Level
	Text  string // its message
	Attrs string // its attributes, as slog's TextHandler writes them: "member=web-2 err=…"
}

// A Log keeps the latest lines. The many lines about single shards have a room of their own, so
// that they do not displace the others. The zero value is empty. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	last uint64
	main ring
	bulk ring
}

// A ring has the latest Kept lines that were put there.
type ring struct {
	lines []Line
	next  int // the oldest line, once it is full
}

func (r *ring) put(e Line) {
	if len(r.lines) < Kept {
		r.lines = append(r.lines, e)
		return
	}
	r.lines[r.next] = e
	r.next = (r.next + 1) % Kept
}

// after returns the lines behind number seq, the oldest first.
func (r *ring) after(seq uint64) []Line {
	n := sort.Search(len(r.lines), func(i int) bool { return r.at(i).Seq > seq })
	lines := make([]Line, 0, len(r.lines)-n)
	for i := n; i < len(r.lines); i++ {
		lines = append(lines, r.at(i))
	}
	return lines
}

func (r *ring) at(i int) Line { return r.lines[(r.next+i)%len(r.lines)] }

// Add adds a line, and numbers it.
func (l *Log) Add(e Line) { l.put(&l.main, e) }

// AddBulk is Add for a line of which there may be many.
func (l *Log) AddBulk(e Line) { l.put(&l.bulk, e) }

func (l *Log) put(r *ring, e Line) {
	e.Text, e.Attrs = bounded.Text(e.Text), clip(e.Attrs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq = l.last
	r.put(e)
}

func clip(s string) string {
	if len(s) <= MaxBytes {
		return s
	}
	return strings.ToValidUTF8(s[:MaxBytes], "") + "…"
}

// After returns the lines behind number seq, the oldest first, and the number of the last line that
// there is. It returns about as many as have the given number of bytes, and one at least, so ask
// again behind the last one of them. A seq not yet reached is from an earlier process: all lines
// are new then.
func (l *Log) After(seq uint64, bytes int) (lines []Line, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > l.last {
		seq = 0
	}
	lines = append(l.main.after(seq), l.bulk.after(seq)...)
	slices.SortFunc(lines, func(a, b Line) int { return cmp.Compare(a.Seq, b.Seq) })
	for n, e := range lines {
		if bytes -= len(e.Text) + len(e.Attrs) + lineBytes; bytes < 0 {
			return lines[:max(n, 1)], l.last
		}
	}
	return lines, l.last
}

// lineBytes are the bytes of a line on the wire beside its texts, about.
const lineBytes = 30
