package shard

import "sync"

// pump publishes sessions of one lane on behalf of senders, which can go on meanwhile.
// Leaving a session never blocks.
type pump struct {
	mu       sync.Mutex
	sessions []*peerSession
	signal   chan struct{}
}

// Publish leaves the session, whose queued is set, to its lane's pump.
func (p *peerSession) Publish() {
	q := &p.plane.pumps[p.ch]
	q.mu.Lock()
	q.sessions = append(q.sessions, p)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// run publishes until stop is closed.
func (q *pump) run(stop <-chan struct{}) {
	var spare []*peerSession
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

// pumps leaves sessions to their pumps, so that answers of many goroutines share
// frames.
type pumps struct{}

func (pumps) publishLater(p *peerSession) {
	p.Lock()
	p.publishUnlock(pumped)
}
