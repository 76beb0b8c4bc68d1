package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// progress prints one changing line on a terminal, with events above. Elsewhere it prints a line
// from time to time. It is safe for concurrent use.
type progress struct {
	out      io.Writer
	terminal bool

	mu    sync.Mutex
	shown bool // the changing line stands on the terminal
	last  time.Time
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if f, ok := out.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// event prints a line that stays.
func (p *progress) event(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
	fmt.Fprintln(p.out, text)
}

// status replaces the former status.
func (p *progress) status(now time.Time, done, total int64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.terminal {
		if now.Sub(p.last) >= time.Second {
			p.last = now
			fmt.Fprintf(p.out, "%d/%d calls, %s\n", done, total, text)
		}
		return
	}
	const width = 30
	bar := make([]byte, width)
	for i := range bar {
		bar[i] = '.'
		if int64(i)*total < done*width {
			bar[i] = '#'
		}
	}
	fmt.Fprintf(p.out, "\r\x1b[K[%s] %d/%d calls, %s", bar, done, total, text)
	p.shown = true
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clearLocked()
}

func (p *progress) clearLocked() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

type throughput struct {
	at   time.Time
	done int64
	rate float64
}

func (t *throughput) look(now time.Time, done int64) float64 {
	if d := now.Sub(t.at); d >= time.Second {
		if !t.at.IsZero() {
			t.rate = float64(done-t.done) / d.Seconds()
		}
		t.at, t.done = now, done
	}
	return t.rate
}
