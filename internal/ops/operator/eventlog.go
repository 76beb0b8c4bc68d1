package operator

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/util/bounded"
)

const (
	// keptLines is the size of each of an EventLog's two rings: with maxAttrBytes, about 5 MiB in
	// all.
	keptLines    = 2048
	maxAttrBytes = 1000
)

// A Line is one line of a log.
type Line struct {
	Seq   uint64 // its number in the EventLog, from 1
	Time  time.Time
	Level slog.Level
	Text  string // its message
	Attrs string // its attributes, as slog's TextHandler writes them: "member=web-2 err=…"
}

// An EventLog keeps the latest lines of a process's log. Lines about single shards are many. They
// have their own ring, so that they do not push out other lines. The zero value is empty. An
// EventLog is safe for concurrent use.
type EventLog struct {
	mu   sync.Mutex
	last uint64
	main ring
	bulk ring
}

type ring struct {
	lines []Line
	next  int // index of the oldest line, once the ring is full
}

func (r *ring) put(e Line) {
	if len(r.lines) < keptLines {
		r.lines = append(r.lines, e)
		return
	}
	r.lines[r.next] = e
	r.next = (r.next + 1) % keptLines
}

func (r *ring) after(seq uint64) []Line {
	n := sort.Search(len(r.lines), func(i int) bool { return r.at(i).Seq > seq })
	lines := make([]Line, 0, len(r.lines)-n)
	for i := n; i < len(r.lines); i++ {
		lines = append(lines, r.at(i))
	}
	return lines
}

func (r *ring) at(i int) Line { return r.lines[(r.next+i)%len(r.lines)] }

// Add numbers a line and adds it.
func (l *EventLog) Add(e Line) { l.put(&l.main, e) }

// AddBulk numbers and adds a line of a frequent kind. Such lines push out only each other.
func (l *EventLog) AddBulk(e Line) { l.put(&l.bulk, e) }

func (l *EventLog) put(r *ring, e Line) {
	e.Text, e.Attrs = bounded.Text(e.Text), bounded.TextUpTo(maxAttrBytes, e.Attrs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq = l.last
	r.put(e)
}

// After returns the lines with numbers above seq, the oldest first. last is the number of the last
// line in the log. The returned lines have about the given number of bytes at most, but if there
// are lines, After returns at least one. To get the next lines, call After with the number of the
// last returned line. If seq is above last, seq is from an earlier process's log, and After returns
// lines from the start.
func (l *EventLog) After(seq uint64, bytes int) (lines []Line, last uint64) {
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

// lineBytes is about the size of a line on the wire without its texts.
const lineBytes = 30

// A LogHandler passes lines to another handler. It also keeps lines of level Info and above in an
// [EventLog], even if the other handler drops them.
type LogHandler struct {
	log  *EventLog
	next slog.Handler
	attr slog.Handler // writes attributes to buf
	buf  *buffer      // shared by all handlers derived from one
}

var _ slog.Handler = LogHandler{}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// NewLogHandler returns a LogHandler that passes lines to next. Attributes that next has already
// are not kept in l.
func NewLogHandler(l *EventLog, next slog.Handler) LogHandler {
	h := LogHandler{log: l, next: next, buf: &buffer{}}
	h.attr = slog.NewTextHandler(&h.buf.Buffer, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: onlyAttrs})
	return h
}

// onlyAttrs drops the attributes that a Line has as fields.
func onlyAttrs(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// Enabled reports whether the line is kept or passed on.
func (h LogHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// Handle keeps lines of level Info or above, and passes on lines that next enables.
func (h LogHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		h.log.Add(Line{Time: r.Time, Level: r.Level, Text: r.Message, Attrs: h.attrs(ctx, r)})
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h LogHandler) attrs(ctx context.Context, r slog.Record) string {
	h.buf.mu.Lock()
	defer h.buf.mu.Unlock()
	h.buf.Reset()
	if err := h.attr.Handle(ctx, r); err != nil {
		return "attributes cannot be written: " + err.Error()
	}
	return strings.TrimSpace(h.buf.String())
}

// WithAttrs returns a LogHandler that adds these attributes to each line.
func (h LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next, h.attr = h.next.WithAttrs(attrs), h.attr.WithAttrs(attrs)
	return h
}

// WithGroup returns a LogHandler that puts the attributes of each line into a group.
func (h LogHandler) WithGroup(name string) slog.Handler {
	h.next, h.attr = h.next.WithGroup(name), h.attr.WithGroup(name)
	return h
}
