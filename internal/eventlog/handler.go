package eventlog

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

// Level is the lowest level of the lines that a [Handler] keeps.
const Level = slog.LevelInfo

// A Handler passes lines on to another handler, and keeps those of [Level] and above in a [Log],
// also where the other one drops them.
type Handler struct {
	log  *Log
	next slog.Handler
	attr slog.Handler // writes attributes to buf
	buf  *buffer      // of all handlers that derive from one
}

var _ slog.Handler = Handler{}

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// NewHandler returns a Handler before next. The attributes that next already has are not kept.
func NewHandler(l *Log, next slog.Handler) Handler {
	h := Handler{log: l, next: next, buf: &buffer{}}
	h.attr = slog.NewTextHandler(&h.buf.Buffer, &slog.HandlerOptions{Level: Level, ReplaceAttr: onlyAttrs})
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
func (h Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= Level || h.next.Enabled(ctx, level)
}

// Handle keeps a line and passes it on.
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= Level {
		h.log.Add(Line{Time: r.Time, Level: r.Level, Text: r.Message, Attrs: h.attrs(ctx, r)})
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h Handler) attrs(ctx context.Context, r slog.Record) string {
	h.buf.mu.Lock()
	defer h.buf.mu.Unlock()
	h.buf.Reset()
	if err := h.attr.Handle(ctx, r); err != nil {
		return "attributes cannot be written: " + err.Error()
	}
	return strings.TrimSpace(h.buf.String())
}

// WithAttrs returns a Handler whose lines have these attributes, too.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next, h.attr = h.next.WithAttrs(attrs), h.attr.WithAttrs(attrs)
	return h
}

// WithGroup returns a Handler whose lines have their attributes in a group.
func (h Handler) WithGroup(name string) slog.Handler {
	h.next, h.attr = h.next.WithGroup(name), h.attr.WithGroup(name)
	return h
}
