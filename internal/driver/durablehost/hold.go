package durablehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Pause says since when the reminders of a type are paused, and by whom.
type Pause struct {
	Since time.Time `json:"since"`
	By    string    `json:"by"`
}

// ErrVolatile is returned for the name of a type without a record in the store, such as a volatile
// type; test with errors.Is.
var ErrVolatile = errors.New("the store has no durable type of that name")

// ReadType returns a durable type's record.
func ReadType(ctx context.Context, s store.Store, kind string) (t Type, at store.Revision, err error) {
	found, err := s.Get(ctx, TypeKey(kind))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return t, 0, fmt.Errorf("type %s: %w", kind, ErrVolatile)
	case err != nil:
		return t, 0, err
	}
	if err := json.Unmarshal(found.Value, &t); err != nil {
		return t, 0, fmt.Errorf("type %s: record %q of the store is damaged: %w (restore it from a backup)", kind, TypeKey(kind), err)
	}
	return t, found.Revision, nil
}

// PauseReminders records in the store that the reminders of a durable type are paused; nil ends the
// pause. It does not change a pause that already exists. Homes pause or resume reminders within 5
// s.
func PauseReminders(ctx context.Context, s store.Store, kind string, p *Pause) error {
	for {
		t, at, err := ReadType(ctx, s, kind)
		if err != nil || (t.Paused == nil) == (p == nil) {
			return err
		}
		t.Paused = p
		value, err := json.Marshal(t)
		if err != nil {
			return err
		}
		if _, err = s.Put(ctx, TypeKey(kind), value, at); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// A process asks the store at most once in holdPeriod whether a type's reminders are paused. It
// does not rely on an answer older than holdKept. holdRetry is the interval at which it looks for
// the first answer.
const (
	holdPeriod = 2 * time.Second
	holdKept   = 8 * holdPeriod
	holdRetry  = 50 * time.Millisecond
)

// A Hold caches at a process whether a type's reminders are paused. It asks the store only while
// a shard of the type here has reminders. It is safe for concurrent use.
type Hold struct {
	process *Process
	kind    string

	mu     sync.Mutex
	asks   bool
	asked  time.Time
	told   time.Time // when the last answer came
	paused bool
}

// NewHold returns the Hold of a type.
func NewHold(p *Process, kind string) *Hold { return &Hold{process: p, kind: kind} }

// holds reports whether reminders must not run now: they are paused, or the store's last answer is
// older than holdKept. If held is true, again is how long to wait before holds is called again.
func (h *Hold) holds() (held bool, again time.Duration) {
	if h == nil {
		return false, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.asks && now.Sub(h.asked) >= holdPeriod {
		h.asks, h.asked = true, now
		h.process.Spawn(h.ask)
	}
	switch {
	case now.Sub(h.told) > holdKept:
		return true, holdRetry
	case h.paused:
		return true, holdPeriod
	}
	return false, 0
}

func (h *Hold) ask() {
	ctx, cancel := context.WithTimeout(h.process.Ctx, try)
	defer cancel()
	t, _, err := ReadType(ctx, h.process.Store, h.kind)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asks = false
	if err != nil && !errors.Is(err, ErrVolatile) { // an answer is kept for a while
		return
	}
	h.told = time.Now()
	switch paused := t.Paused != nil; {
	case paused && !h.paused:
		h.process.Log.Warn("reminders are paused here", "kind", h.kind, "since", t.Paused.Since, "by", t.Paused.By)
	case h.paused && !paused:
		h.process.Log.Info("reminders run again here", "kind", h.kind)
	}
	h.paused = t.Paused != nil
}
