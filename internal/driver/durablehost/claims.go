package durablehost

import (
	"sync"
	"time"
)

// Claims orders the claims of all shards of one process, and bounds how many claims run at a time.
// The zero value is ready for use.
//
// After a full restart a process claims all of its shards at once. The store answers one claim
// after another, because for each claim it reads the shard's head and log from disk. Therefore few
// claims run at a time, and claims that calls wait for run before others. So the first call waits
// only for a few claims.
type Claims struct {
	mu     sync.Mutex
	under  int       // number of claims that run and are not slow
	wanted []*Tenure // tenures that calls wait for; the claims of some have already begun or ended
	others []*Tenure // all tenures that have asked; some are also in wanted, and the claims of some have already begun or ended
}

const (
	maxClaims     = 8 // bounds all running claims
	maxIdleClaims = 4 // beyond it, only claims that calls wait for begin
	// slowClaim is how long a claim counts as running. A slower one must not delay claims on other
	// parts of the store.
	slowClaim = 250 * time.Millisecond
)

// A tenureClaim is the state of a tenure's claim. Claims.mu guards it.
type tenureClaim struct {
	state  claimState
	wanted bool   // calls wait for it
	send   func() // sends the claim
	slow   *time.Timer
}

type claimState uint8

const (
	claimNew claimState = iota
	claimQueued
	claimUnder // it counts as running
	claimPast  // it does not count: it is slow or has ended
)

// ask calls send, a function that sends the tenure's claim. It calls send at once, or later if too
// many claims are running. If the tenure has asked before, ask always calls send at once. The
// caller holds the tenure's lock.
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

// want records that a call or a move waits for a tenure's claim.
func (c *Claims) want(t *Tenure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.claim.state == claimQueued && !t.claim.wanted {
		t.claim.wanted = true
		c.wanted = append(c.wanted, t)
		c.nextLocked()
	}
}

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

// nextLocked begins queued claims within the bounds. The caller holds mu.
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

// nextClaim removes tenures from the front of the queue, up to and including the first one whose
// claim has not begun. It returns that tenure, or nil if there is none.
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
