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

// Bounds of a EventLog.
const (
	// keptLines is how many lines of either kind a EventLog keeps: with maxAttrBytes, at most about 5 MiB.
	keptLines = 2048
	// maxAttrBytes is the length of a line's attributes, which are clipped there.
	maxAttrBytes = 1000
)

// A Line is one line of a log.
type Line struct {
	Seq   uint64 // lines of a EventLog are numbered from 1
	Time  time.Time
	Level slog.Level
	Text  string // its message
	Attrs string // its attributes, as slog's TextHandler writes them: "member=web-2 err=…"
}

// A EventLog keeps the latest lines. The many lines of single shards have their own ring, so they
// cannot push out the others. The zero value is empty. It is safe for concurrent use.
type EventLog struct {
	mu   sync.Mutex
	last uint64
	main ring
	bulk ring
}

// A ring has the latest keptLines lines that were put there.
type ring struct {
	lines []Line
	next  int // the oldest line, once it is full
}

func (r *ring) put(e Line) {
	if len(r.lines) < keptLines {
		r.lines = append(r.lines, e)
		return
	}
	r.lines[r.next] = e
	r.next = (r.next + 1) % keptLines
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
func (l *EventLog) Add(e Line) { l.put(&l.main, e) }

// AddBulk is Add for a line of which there may be many.
func (l *EventLog) AddBulk(e Line) { l.put(&l.bulk, e) }

func (l *EventLog) put(r *ring, e Line) {
	e.Text, e.Attrs = bounded.Text(e.Text), clip(e.Attrs)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.Seq = l.last
	r.put(e)
}

func clip(s string) string {
	if len(s) <= maxAttrBytes {
		return s
	}
	return strings.ToValidUTF8(s[:maxAttrBytes], "") + "…"
}

// After returns the lines behind number seq, the oldest first, and the number of the last line that
// there is. It returns about as many as have the given number of bytes, and one at least, so ask
// again behind the last one of them. If seq is above the last number, it is from an earlier
// process, and all lines are new.
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

// lineBytes are the bytes of a line on the wire beside its texts, about.
const lineBytes = 30

// A LogHandler passes lines on to another handler, and keeps those of level info and above in an [EventLog],
// also where the other one drops them.
type LogHandler struct {
	log  *EventLog
	next slog.Handler
	attr slog.Handler // writes attributes to buf
	buf  *buffer      // of all handlers that derive from one
}

var _ slog.Handler = LogHandler{}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// NewLogHandler returns a LogHandler before next. The attributes that next already has are not kept.
func NewLogHandler(l *EventLog, next slog.Handler) LogHandler {
	h := LogHandler{log: l, next: next, buf: &buffer{}}
	h.attr = slog.NewTextHandler(&h.buf.Buffer, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: onlyAttrs})
	return h
}

// onlyAttrs drops the fields of a line that a Line has beside its attributes.
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

// Handle keeps a line and passes it on.
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

// WithAttrs returns a LogHandler whose lines have these attributes, too.
func (h LogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next, h.attr = h.next.WithAttrs(attrs), h.attr.WithAttrs(attrs)
	return h
}

// WithGroup returns a LogHandler whose lines have their attributes in a group.
func (h LogHandler) WithGroup(name string) slog.Handler {
	h.next, h.attr = h.next.WithGroup(name), h.attr.WithGroup(name)
	return h
}
