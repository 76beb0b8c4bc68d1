package front

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	heartbeat = 10 * time.Second // between two comments, by which a dead connection is noticed
	behind    = 64               // changes that a watcher may be behind
)

// A hub brings changes to watchers. Of several changes of one auction it may bring only the last
// one.
type hub struct {
	mu       sync.Mutex
	changed  map[string]bool
	watchers map[chan []byte]bool
	wake     chan struct{}
}

func (h *hub) init() {
	h.changed, h.watchers, h.wake = map[string]bool{}, map[chan []byte]bool{}, make(chan struct{}, 1)
}

// Changed is called when an auction may have changed. It does not block.
func (f *Front) Changed(id string) {
	h := &f.live
	h.mu.Lock()
	if len(h.watchers) > 0 {
		h.changed[id] = true
	}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Missed is called when changes may have been missed. It disconnects all watchers: they connect
// again and read everything.
func (f *Front) Missed() {
	f.live.mu.Lock()
	defer f.live.mu.Unlock()
	for w := range f.live.watchers {
		f.live.dropLocked(w)
	}
}

// Run reads changed auctions and sends them to the watchers, until ctx ends.
func (f *Front) Run(ctx context.Context) {
	h := &f.live
	for {
		select {
		case <-ctx.Done():
			f.Missed()
			return
		case <-h.wake:
		}
		h.mu.Lock()
		changed := h.changed
		h.changed = map[string]bool{}
		h.mu.Unlock()
		for id := range changed {
			reading, cancel := context.WithTimeout(ctx, patience)
			item, err := f.show(reading, id)
			cancel()
			if err != nil {
				continue // the page reads everything again from time to time
			}
			if text, err := json.Marshal(item); err == nil {
				h.send(text)
			}
		}
	}
}

// send gives a text to all watchers. It disconnects a watcher that is too far behind; that watcher
// connects again and reads everything.
func (h *hub) send(text []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		select {
		case w <- text:
		default:
			h.dropLocked(w)
		}
	}
}

func (h *hub) dropLocked(w chan []byte) {
	delete(h.watchers, w)
	close(w)
}

// watch serves changes. A disconnected browser reconnects by itself.
func (f *Front) watch(w http.ResponseWriter, r *http.Request) {
	h, mine := &f.live, make(chan []byte, behind)
	h.mu.Lock()
	h.watchers[mine] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.watchers[mine] {
			h.dropLocked(mine)
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := http.NewResponseController(w)
	alive := time.NewTicker(heartbeat)
	defer alive.Stop()
	for text := "retry: 500\n\n"; ; {
		if _, err := fmt.Fprint(w, text); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			text = ":\n\n"
		case item, ok := <-mine:
			if !ok {
				return
			}
			text = fmt.Sprintf("data: %s\n\n", item)
		}
	}
}
