package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A storeProbe asks the store whether it answers, at most every probeEvery, or every
// probeAgainAfter while it does not, and only when somebody asks for the node's health. The zero value is ready for use. It is safe for
// concurrent use.
type storeProbe struct {
	mu      sync.Mutex
	running bool
	began   time.Time // of the latest question
	failing time.Time // of the first question in a row without an answer; zero means the latest was answered
	err     error
}

// A question to the store may take storePatience.
const (
	storePatience   = 2 * time.Second
	probeEvery      = 5 * time.Second
	probeAgainAfter = time.Second // while it does not answer
)

// ask asks the store on a goroutine that spawn starts, unless that was just done.
func (p *storeProbe) ask(now time.Time, answers func() error, spawn func(func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pause := probeEvery
	if !p.failing.IsZero() {
		pause = probeAgainAfter
	}
	if p.running || now.Sub(p.began) < pause {
		return
	}
	p.running, p.began = true, now
	spawn(func() {
		err := answers()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running, p.err = false, err
		switch {
		case err == nil:
			p.failing = time.Time{}
		case p.failing.IsZero():
			p.failing = now
		}
	})
}

// said returns the fault of the store; "" if it has answered.
func (p *storeProbe) said(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing.IsZero() || errors.Is(p.err, context.Canceled) {
		return ""
	}
	return fmt.Sprintf("the store has not answered for %v: %v", tenths(now.Sub(p.failing)), p.err)
}

// tenths rounds d up to a tenth of a second.
func tenths(d time.Duration) time.Duration {
	const tenth = 100 * time.Millisecond
	return (d + tenth - 1).Truncate(tenth)
}
