package load

import (
	"sync"
	"time"
)

// pauses records when the callers of one entity had to wait. It is safe for concurrent use.
type pauses struct {
	entity string

	mu       sync.Mutex
	node     string    // where it was last seen
	since    time.Time // begin of the first burst with a failed call since the last answer; zero without one
	pauses   []pause
	failures []time.Time // ends of bursts in which a call failed
}

// A pause lasts from the begin of the first burst that had to wait to the end of the next answered
// burst. A burst that is answered at once is a short pause.
type pause struct{ begin, end time.Time }

func newPauses(entity string) *pauses { return &pauses{entity: entity} }

// ended records the end of a burst. err means that a call failed.
func (p *pauses) ended(begin, end time.Time, node string, err error) {
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
	p.pauses = append(p.pauses, pause{begin, end})
}

func (p *pauses) lastSeen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.node
}

// longest returns the longest pause that ended after the given time, or has not ended yet.
func (p *pauses) longest(after, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, pause := range p.pauses {
		if pause.end.After(after) {
			longest = max(longest, pause.end.Sub(pause.begin))
		}
	}
	if !p.since.IsZero() {
		longest = max(longest, now.Sub(p.since))
	}
	return longest
}

// within appends the lengths of pauses within [from, to].
func (p *pauses) within(all []time.Duration, from, to time.Time) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pause := range p.pauses {
		if pause.begin.After(from) && pause.end.Before(to) {
			all = append(all, pause.end.Sub(pause.begin))
		}
	}
	return all
}

// recovered returns the end of the last pause that ended after the given time and was longer than
// slow, or held the last failed call; zero if there is none. If never is true, callers have been
// waiting since at.
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
		if !pause.end.After(after) || !pause.end.After(at) {
			continue
		}
		held := !failed.IsZero() && !pause.begin.After(failed) && pause.end.After(failed)
		if held || pause.end.Sub(pause.begin) > slow {
			at = pause.end
		}
	}
	return at, false
}
