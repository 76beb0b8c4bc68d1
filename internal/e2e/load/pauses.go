package load

import (
	"sync"
	"time"
)

// pauses measures how long one entity did not answer. It is safe for concurrent
// use.
type pauses struct {
	entity string

	mu       sync.Mutex
	node     string    // where it was last seen
	since    time.Time // begin of the first call that failed since an answer; zero means it answers
	pauses   []Pause
	failures []time.Time // ends of calls that failed
}

// A Pause is a time in which callers of an entity waited for it: from the begin
// of the first call that had to, to the end of the next one that was answered. A
// single call that is answered is a short pause.
type Pause struct {
	Begin, End time.Time // End is zero while it does not answer
}

func newPauses(entity string) *pauses { return &pauses{entity: entity} }

// answered notes the end of a call.
func (p *pauses) answered(begin, end time.Time, node string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failures = append(p.failures, end)
		if p.since.IsZero() || begin.Before(p.since) {
			p.since = begin
		}
		return
	}
	p.node = node
	if !p.since.IsZero() && p.since.Before(begin) {
		begin = p.since
	}
	p.since = time.Time{}
	p.pauses = append(p.pauses, Pause{begin, end})
}

func (p *pauses) home() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// longest is the longest pause that did not end before after. One that has not
// ended lasts until now.
func (p *pauses) longest(after, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, pause := range p.pauses {
		if pause.End.After(after) {
			longest = max(longest, pause.End.Sub(pause.Begin))
		}
	}
	if !p.since.IsZero() {
		longest = max(longest, now.Sub(p.since))
	}
	return longest
}

// within appends how long the pauses took that lie between two times.
func (p *pauses) within(all []time.Duration, from, to time.Time) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pause := range p.pauses {
		if pause.Begin.After(from) && pause.End.Before(to) {
			all = append(all, pause.End.Sub(pause.Begin))
		}
	}
	return all
}

// recovered is when, after the given time, calls went well again: the end of the
// last pause in which a call failed or that was longer than slow. It is zero if
// there was none; never is true while the entity does not answer.
func (p *pauses) recovered(after time.Time, slow time.Duration) (at time.Time, never bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		return p.since, true
	}
	var failed time.Time // the last one
	for _, f := range p.failures {
		if f.After(after) && f.After(failed) {
			failed = f
		}
	}
	for _, pause := range p.pauses {
		if !pause.End.After(after) || !pause.End.After(at) {
			continue
		}
		held := !failed.IsZero() && !pause.Begin.After(failed) && pause.End.After(failed)
		if held || pause.End.Sub(pause.Begin) > slow {
			at = pause.End
		}
	}
	return at, false
}
