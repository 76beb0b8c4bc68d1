package memory

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A lease is the server's record of a lease. The record outlives the lease, to keep the token.
type lease struct {
	holder string // empty: nobody
	token  uint64
	ends   time.Time // when another holder may get the lease
}

func (l *lease) heldAt(now time.Time) bool { return l.holder != "" && now.Before(l.ends) }

// Acquire implements [store.Lease].
func (c *Client) Acquire(ctx context.Context, claim store.Claim) (store.Held, error) {
	const op = "acquire"
	if err := claim.Check(); err != nil {
		return store.Held{}, fail(op, claim.Name, err)
	}
	sent := c.server.now()
	var token uint64
	err := c.do(ctx, Op{Name: op, Key: claim.Name, Write: true}, func() error {
		now := c.server.now()
		l := c.server.leases[claim.Name]
		if l == nil {
			l = &lease{}
			c.server.leases[claim.Name] = l
		}
		held := l.heldAt(now) && (l.token != claim.Over || claim.Over == 0)
		if held && l.holder != claim.Holder {
			return &store.HeldError{Holder: l.holder, Token: l.token, RetryAfter: l.ends.Sub(now)}
		}
		if !held {
			l.token++
			l.ends = now
		}
		l.holder = claim.Holder
		l.prolong(now, claim.TTL)
		token = l.token
		return nil
	})
	if err != nil {
		return store.Held{}, fail(op, claim.Name, err)
	}
	return heldSince(sent, claim, token), nil
}

// Renew implements [store.Lease].
func (c *Client) Renew(ctx context.Context, h store.Held) (store.Held, error) {
	const op = "renew"
	if err := h.Check(); err != nil {
		return store.Held{}, fail(op, h.Name, err)
	}
	sent := c.server.now()
	err := c.do(ctx, Op{Name: op, Key: h.Name, Write: true}, func() error {
		now := c.server.now()
		l := c.server.leases[h.Name]
		if l == nil || !l.heldAt(now) || l.holder != h.Holder || l.token != h.Token {
			return store.ErrLost
		}
		l.prolong(now, h.TTL)
		return nil
	})
	if err != nil {
		return store.Held{}, fail(op, h.Name, err)
	}
	return heldSince(sent, h.Claim, h.Token), nil
}

// Release implements [store.Lease].
func (c *Client) Release(ctx context.Context, h store.Held) error {
	const op = "release"
	if err := h.Check(); err != nil {
		return fail(op, h.Name, err)
	}
	return fail(op, h.Name, c.do(ctx, Op{Name: op, Key: h.Name, Write: true}, func() error {
		l := c.server.leases[h.Name]
		if l != nil && l.holder == h.Holder && l.token == h.Token {
			l.holder = ""
		}
		return nil
	}))
}

// prolong extends the lease to ttl and its Margin after now. It never shortens the lease, because
// an earlier answer may have promised its holder a later end.
func (l *lease) prolong(now time.Time, ttl time.Duration) {
	if ends := now.Add(ttl + store.Margin(ttl)); ends.After(l.ends) {
		l.ends = ends
	}
}

// heldSince returns the granted lease. The TTL counts from when the request was sent.
func heldSince(sent time.Time, claim store.Claim, token uint64) store.Held {
	return store.Held{Claim: claim, Token: token, Until: sent.Add(claim.TTL - store.Margin(claim.TTL))}
}
