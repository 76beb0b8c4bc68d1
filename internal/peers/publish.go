package peers

import "sync"

// By says which goroutine publishes appended envelopes, unless one is publishing the session
// already. Each appender passes the one that suits it, and PublishUnlock decides. Only Flush
// decides by itself: it publishes envelopes that are not calls at once.
type By uint8

const (
	// Together means the appender, or the last of the callers that were just woken and are
	// about to call again, so that one frame has the calls of all.
	Together By = iota
	// Alone is Together for a single call. On an idle session the caller publishes at
	// once, so that a lone call never waits. If many calls are under way, it first lets
	// others append theirs.
	Alone
	// Pumped means the lane's pump, for an appender that continues at once and may
	// append more.
	Pumped
)

// yieldAbove is the number of calls under way above which a writer lets others append
// theirs before it publishes.
const yieldAbove = 2

// PublishUnlock arranges the publication of appended envelopes, and unlocks the
// session.
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

// Publish gives the session, whose queued is set, to its lane's pump.
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

// A Publisher publishes sessions to which envelopes were appended, now or together with
// others.
type Publisher interface{ PublishLater(p *Session) }

// A Batch is a set of sessions to which one goroutine appends many envelopes, and which
// it publishes when it has appended all. The zero value is empty.
type Batch struct{ sessions []*Session }

// PublishLater adds the session to the batch.
func (b *Batch) PublishLater(p *Session) {
	for _, s := range b.sessions {
		if s == p {
			return
		}
	}
	b.sessions = append(b.sessions, p)
}

// Publish publishes the sessions, and empties the batch.
func (b *Batch) Publish() {
	for i, p := range b.sessions {
		p.Lock()
		p.PublishUnlock(Together)
		b.sessions[i] = nil
	}
	b.sessions = b.sessions[:0]
}

// Pumps gives sessions to their lanes' pumps, so that envelopes of many goroutines share
// frames.
type Pumps struct{}

// PublishLater gives the session to its lane's pump.
func (Pumps) PublishLater(p *Session) {
	p.Lock()
	p.PublishUnlock(Pumped)
}

// A pump publishes the sessions of one lane that are given to it, so that senders can
// continue. Giving it a session never blocks.
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
