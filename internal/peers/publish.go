package peers

import "sync"

// By is who publishes what was appended to a session, unless somebody is at it anyway.
// Whoever appends names the one that fits it, and PublishUnlock decides. No other place does,
// but for Flush, which publishes what is no call at once.
type By uint8

const (
	// Together is the appender, or the last of the callers that were just woken and are about
	// to call again, so that one frame holds the calls of all.
	Together By = iota
	// Alone is Together for a single call. An idle session's caller publishes at once, so
	// that a lone call never waits; one of many first lets others add theirs.
	Alone
	// Pumped is the lane's pump, for an appender that goes on at once and may have more.
	Pumped
)

// yieldAbove is with how many calls under way a writer lets others add theirs
// before it publishes.
const yieldAbove = 2

// PublishUnlock has appended envelopes published, and unlocks.
func (p *Session) PublishUnlock(by By) {
	calls := p.set.cfg.Calls
	switch {
	case p.WritingLocked() || p.queued:
		p.Unlock()
	case by == Pumped:
		p.queued = true
		p.Unlock()
		p.Publish()
	case calls.Woken() > 0:
		p.queued = true
		p.Unlock()
		calls.Delay(p)
	default:
		p.PublishLocked(by == Alone && calls.UnderWay() > yieldAbove)
		p.Unlock()
	}
}

// Publish leaves the session, whose queued is set, to its lane's pump.
func (p *Session) Publish() {
	q := &p.set.pumps[p.lane]
	q.mu.Lock()
	q.sessions = append(q.sessions, p)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// A Publisher brings what was appended to a session to the broker, now or together
// with more.
type Publisher interface{ PublishLater(p *Session) }

// A Batch is sessions to which one goroutine appends much, to be published by that
// goroutine when it has appended for all. The zero value is empty.
type Batch struct{ sessions []*Session }

// PublishLater has the session published with the batch.
func (b *Batch) PublishLater(p *Session) {
	for _, s := range b.sessions {
		if s == p {
			return
		}
	}
	b.sessions = append(b.sessions, p)
}

// Publish has the sessions published, and empties the batch.
func (b *Batch) Publish() {
	for i, p := range b.sessions {
		p.Lock()
		p.PublishUnlock(Together)
		b.sessions[i] = nil
	}
	b.sessions = b.sessions[:0]
}

// Pumps leaves sessions to their lanes' pumps, so that what many goroutines append shares
// frames.
type Pumps struct{}

// PublishLater leaves the session to its lane's pump.
func (Pumps) PublishLater(p *Session) {
	p.Lock()
	p.PublishUnlock(Pumped)
}

// A pump publishes the sessions of one lane that are left to it, so that whoever has
// something to send can go on. Leaving a session never blocks.
type pump struct {
	mu       sync.Mutex
	sessions []*Session
	signal   chan struct{}
}

// run publishes until stop is closed.
func (q *pump) run(stop <-chan struct{}) {
	var spare []*Session
	for {
		select {
		case <-stop:
			return
		case <-q.signal:
		}
		q.mu.Lock()
		sessions := q.sessions
		q.sessions = spare[:0]
		q.mu.Unlock()
		for i, p := range sessions {
			p.Lock()
			p.queued = false
			if !p.WritingLocked() {
				p.PublishLocked(true)
			}
			p.Unlock()
			sessions[i] = nil
		}
		spare = sessions
	}
}
