package durablehost

import (
	"sync"
	"time"
)

// Claims puts the claims of all shards of one process in order, and bounds those under way. The zero value is ready.
//
// After a restart of everything a process claims all its shards at once, and the store answers one
// claim after another, for it reads each shard's head and log from disk. So few claims are under
// way at a time, and those come first for which calls wait: the first answer waits for a few
// claims instead of all.
type Claims struct {
	mu     sync.Mutex
	under  int       // under way, and not slow
	wanted []*Tenure // calls wait for them; some have begun or ended meanwhile
	others []*Tenure // likewise, and some are in wanted too
}

// Bounds of the claims under way.
const (
	maxClaims     = 8 // at most, under way
	maxIdleClaims = 4 // no claim for which no call waits begins beyond this many under way
	// slowClaim is how long a claim counts as under way. A longer one waits for a silent part of
	// the store, and must not delay claims on another part.
	slowClaim = 250 * time.Millisecond
)

// A tenureClaim is the claim of a tenure among those of its process. It is guarded by Claims.mu.
type tenureClaim struct {
	state  claimState
	wanted bool   // calls wait for it
	send   func() // begins the claim
	slow   *time.Timer
}

type claimState uint8

const (
	claimNew claimState = iota
	claimQueued
	claimUnder // it counts as under way
	claimPast  // it does not: it is slow, or over
)

// ask begins the claim of a tenure by send, now or later. The tenure's lock is held.
func (c *Claims) ask(t *Tenure, send func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.claim.state != claimNew { // it asks again
		send()
		return
	}
	t.claim.state, t.claim.send = claimQueued, send
	c.others = append(c.others, t)
	c.nextLocked()
}

// want says that a call or a move waits for a tenure.
func (c *Claims) want(t *Tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.claim.state == claimQueued && !t.claim.wanted {
		t.claim.wanted = true
		c.wanted = append(c.wanted, t)
		c.nextLocked()
	}
}

// over says that the claim of a tenure has succeeded or failed, or is slow.
func (c *Claims) over(t *Tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.claim.state == claimUnder {
		t.claim.slow.Stop()
		c.under--
		defer c.nextLocked()
	}
	t.claim.state, t.claim.send = claimPast, nil
}

// nextLocked begins the claims that may begin.
func (c *Claims) nextLocked() {
	for {
		var t *Tenure
		if c.under < maxClaims {
			t = nextClaim(&c.wanted)
		}
		if t == nil && c.under < maxIdleClaims {
			t = nextClaim(&c.others)
		}
		if t == nil {
			return
		}
		c.under++
		t.claim.state = claimUnder
		t.claim.slow = time.AfterFunc(slowClaim, func() { c.over(t) })
		t.claim.send()
		t.claim.send = nil
	}
}

// nextClaim takes the first tenure of a queue that has not begun its claim; nil means there is none.
func nextClaim(queue *[]*Tenure) *Tenure {
	for len(*queue) > 0 {
		t := (*queue)[0]
		(*queue)[0] = nil
		*queue = (*queue)[1:]
		if t.claim.state == claimQueued {
			return t
		}
	}
	*queue = nil
	return nil
}
