package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardgen/shardgen/store"
)

// leases implements [store.Lease]. A lease is a message changed by compare-and-set. It is never
// deleted, because it keeps the token. Instead of using the server's clock, a candidate waits until
// the revision has stayed the same for TTL plus Margin.
type leases struct {
	*writer
	name, stream string

	mu   sync.Mutex
	seen map[string]sighting
}

var _ store.Lease = (*leases)(nil)

// A sighting says when this process first saw a lease's revision.
type sighting struct {
	revision uint64
	since    time.Time
}

type holding struct {
	Holder string        `json:"holder"` // empty: nobody
	Token  uint64        `json:"token"`
	TTL    time.Duration `json:"ttl"`
}

// errMoved means that the lease changed between read and write.
var errMoved = errors.New("the lease changed between the read and the write")

// rounds bounds how often one call reads the lease again because other processes wrote it.
const rounds = 5

// Acquire implements [store.Lease].
func (l *leases) Acquire(ctx context.Context, c store.Claim) (store.Held, error) {
	const op = "acquire"
	if err := c.Check(); err != nil {
		return store.Held{}, fail(op, c.Name, err)
	}
	var err error
	for range rounds {
		var held store.Held
		held, err = l.take(ctx, c)
		if err == nil {
			return held, nil
		}
		if !errors.Is(err, errMoved) && !errors.Is(err, store.ErrBusy) {
			return store.Held{}, fail(op, c.Name, err)
		}
	}
	// Other processes keep writing the lease: one of them has it.
	return store.Held{}, fail(op, c.Name, &store.HeldError{RetryAfter: c.TTL + store.Margin(c.TTL)})
}

func (l *leases) take(ctx context.Context, c store.Claim) (store.Held, error) {
	now, revision, err := l.read(ctx, c.Name)
	if err != nil {
		return store.Held{}, err
	}
	next := holding{Holder: c.Holder, Token: now.Token, TTL: c.TTL}
	over := c.Over != 0 && c.Over == now.Token
	switch {
	case now.Holder == c.Holder && !over: // the holder missed the answer to its claim
		next.TTL = max(now.TTL, c.TTL)
	case now.Holder == "" || over:
		next.Token++
	default:
		if left := l.left(c.Name, now, revision); left > 0 {
			return store.Held{}, &store.HeldError{Holder: now.Holder, Token: now.Token, RetryAfter: left}
		}
		next.Token++
	}
	return l.write(ctx, c, next, revision)
}

// left returns how long the lease can still last at most, counted from when this process first saw
// the last renewal, because the holder sent that renewal earlier.
func (l *leases) left(name string, h holding, revision uint64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seen[name]
	if s.revision != revision {
		s = sighting{revision, time.Now()}
		l.seen[name] = s
	}
	return h.TTL + store.Margin(h.TTL) - time.Since(s.since)
}

// Renew implements [store.Lease].
func (l *leases) Renew(ctx context.Context, h store.Held) (store.Held, error) {
	const op = "renew"
	if err := h.Check(); err != nil {
		return store.Held{}, fail(op, h.Name, err)
	}
	var err error
	for range rounds {
		var held store.Held
		held, err = l.prolong(ctx, h)
		if err == nil {
			return held, nil
		}
		if !errors.Is(err, errMoved) && !errors.Is(err, store.ErrBusy) {
			return store.Held{}, fail(op, h.Name, err)
		}
	}
	return store.Held{}, fail(op, h.Name, fmt.Errorf("%w: other processes keep writing the lease", store.ErrUnavailable))
}

func (l *leases) prolong(ctx context.Context, h store.Held) (store.Held, error) {
	now, revision, err := l.read(ctx, h.Name)
	if err != nil {
		return store.Held{}, err
	}
	if now.Holder != h.Holder || now.Token != h.Token {
		return store.Held{}, store.ErrLost
	}
	// A shorter TTL would end the lease earlier than an answer under way promises.
	return l.write(ctx, h.Claim, holding{Holder: h.Holder, Token: h.Token, TTL: max(now.TTL, h.TTL)}, revision)
}

// Release implements [store.Lease].
func (l *leases) Release(ctx context.Context, h store.Held) error {
	const op = "release"
	if err := h.Check(); err != nil {
		return fail(op, h.Name, err)
	}
	var err error
	for range rounds {
		var now holding
		var revision uint64
		if now, revision, err = l.read(ctx, h.Name); err != nil {
			return fail(op, h.Name, err)
		}
		if now.Holder != h.Holder || now.Token != h.Token {
			return nil
		}
		_, err = l.write(ctx, h.Claim, holding{Token: h.Token}, revision)
		if err == nil || !errors.Is(err, errMoved) && !errors.Is(err, store.ErrBusy) {
			return fail(op, h.Name, err)
		}
	}
	return fail(op, h.Name, fmt.Errorf("%w: %w", store.ErrUnavailable, err))
}

// read reads the lease from the leader; after a stale read, write fails.
func (l *leases) read(ctx context.Context, name string) (holding, uint64, error) {
	m, err := l.leaderHas(ctx, l.stream, getRequest{LastFor: leaseSubject(l.name, name)})
	if err != nil || m == nil {
		return holding{}, 0, err
	}
	var h holding
	if err := json.Unmarshal(m.data, &h); err != nil {
		return holding{}, 0, fmt.Errorf("%w: stream %s: message %d is no lease: %w", store.ErrUnavailable, l.stream, m.seq, err)
	}
	return h, m.seq, nil
}

// write replaces the lease's message if it has the given revision. The TTL counts from before
// sending.
func (l *leases) write(ctx context.Context, c store.Claim, h holding, revision uint64) (store.Held, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return store.Held{}, fmt.Errorf("%w: %w", store.ErrBadClaim, err)
	}
	sent := time.Now()
	_, err = l.publish(ctx, l.stream, message(leaseSubject(l.name, c.Name), data, headerLast, number(revision)))
	if errors.Is(err, store.ErrConflict) {
		return store.Held{}, errMoved
	}
	if err != nil {
		return store.Held{}, err
	}
	return store.Held{Claim: c, Token: h.Token, Until: sent.Add(c.TTL - store.Margin(c.TTL))}, nil
}
