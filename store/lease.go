package store

import (
	"context"
	"fmt"
	"time"
)

// A Lease grants leases by name, each to one holder at a time. All methods are safe for concurrent
// use, make one attempt, and return when ctx ends. Their errors are of type [*Error].
type Lease interface {
	// Acquire grants the lease if it has no holder, or if the claim's own holder already has it. So
	// a caller that got ErrUncertain calls Acquire again. If another holder has the lease, Acquire
	// fails with ErrHeld and a [*HeldError] that says when to ask again. Keep asking: an
	// implementation may have to watch the lease for TTL plus Margin before it grants the lease to
	// another holder, and it watches only while it is asked.
	//
	// Unless it is renewed, a lease lasts at most the TTL of its holder's claim.
	Acquire(ctx context.Context, c Claim) (Held, error)
	// Renew extends a lease that Acquire or Renew returned. ErrLost is final: another holder has or
	// had the lease, or the lease ended. After any other error the lease lasts until h.Until, and
	// Renew may be called again.
	Renew(ctx context.Context, h Held) (Held, error)
	// Release gives the lease back, so that another holder may have it at once. First stop what the
	// lease guards. Releasing a lost lease is no error. After an error the lease expires.
	Release(ctx context.Context, h Held) error
}

// A Claim is a request for a lease by a holder.
type Claim struct {
	// Name of the lease; it obeys CheckKey.
	Name string
	// Holder identifies the holder: 1 to MaxKey bytes, different for every process and for every
	// start of a process. A node's name and incarnation together do this.
	Holder string
	// Over, if not 0, is a token. If the present holder's lease has this token, the claim gets the
	// lease at once, under a new token, before the present holder's time ends. Of several claims
	// over one token, one succeeds.
	Over uint64
	// TTL is how long the lease lasts without being renewed, at least MinTTL. Renew it every third
	// of the TTL. A store may require a longer TTL.
	TTL time.Duration
}

// MinTTL is the lowest TTL that a claim may ask for.
const MinTTL = 100 * time.Millisecond

// Check returns an error wrapping ErrBadClaim for an invalid claim.
func (c Claim) Check() error {
	if err := CheckKey(c.Name); err != nil {
		return fmt.Errorf("%w: name: %w", ErrBadClaim, err)
	}
	if c.Holder == "" || len(c.Holder) > MaxKey {
		return fmt.Errorf("%w: holder has %d bytes: want 1 to %d", ErrBadClaim, len(c.Holder), MaxKey)
	}
	if c.TTL < MinTTL {
		return fmt.Errorf("%w: TTL is %v: want at least %v", ErrBadClaim, c.TTL, MinTTL)
	}
	return nil
}

// Margin returns a tenth of ttl, the time to live of a lease. It allows for clocks that run at
// different rates: a holder stops Margin before ttl has passed, and a candidate waits until Margin
// after ttl has passed.
func Margin(ttl time.Duration) time.Duration { return ttl / 10 }

// A Held is a granted lease, in the hands of its holder.
type Held struct {
	Claim
	// Token is higher than the tokens of all earlier grants of this lease. It stays the same while
	// the lease is renewed.
	Token uint64
	// Until is when the holder must have stopped, unless it renews the lease before. Until is the
	// time at which the holder sent the last renewal, plus TTL, less Margin, on this process's
	// monotonic clock.
	Until time.Time
}

// A HeldError names the holder of the lease. errors.Is matches it with ErrHeld.
type HeldError struct {
	Holder string // empty: not known
	Token  uint64 // of the holder's lease; 0 means not known
	// RetryAfter is the shortest time after which another claim can succeed, unless the holder
	// releases the lease earlier.
	RetryAfter time.Duration
}

// Error names the holder.
func (e *HeldError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "somebody"
	}
	return fmt.Sprintf("%v by %s for up to %v", ErrHeld, holder, e.RetryAfter)
}

// Is reports true for ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
