package store

import (
	"context"
	"fmt"
	"time"
)

// A Lease gives names to one holder at a time. All methods are safe for
// concurrent use, try once, and return when ctx ends; their errors are of type
// [*Error].
type Lease interface {
	// Acquire takes the lease if it has no holder, or if the claim's own holder has it,
	// so a caller that got ErrUncertain asks again. It fails with ErrHeld, and a
	// [*HeldError] that says when to ask again. An implementation may have to watch a
	// lease for TTL plus Margin before it gives it to another holder, and it watches only
	// while it is asked, so a candidate keeps asking.
	//
	// The TTL that counts against a holder is the one it claimed with.
	Acquire(ctx context.Context, c Claim) (Held, error)
	// Renew prolongs a lease that Acquire or Renew returned. ErrLost is final:
	// another holder has it, had it, or it ended. After any other error the lease
	// holds until h.Until, and renewing it may be tried again.
	Renew(ctx context.Context, h Held) (Held, error)
	// Release gives the lease back, so that another may have it at once. The holder must
	// have stopped before. Releasing a lost lease is no error. After any error the lease ends by
	// itself.
	Release(ctx context.Context, h Held) error
}

// A Claim is a request for a lease by a holder.
type Claim struct {
	// Name of the lease; it obeys CheckKey.
	Name string
	// Holder tells claims apart: 1 to MaxKey bytes, never the same for two
	// processes, nor for two starts of one. A node's name and incarnation do.
	Holder string
	// Over is the token of a holding to be replaced: the lease is granted under a new
	// token before that one ends, even to another holder. Of several claims over one
	// holding one succeeds. Zero: none.
	Over uint64
	// TTL is how long the lease lasts without being renewed, at least MinTTL.
	// Renew it every third of that. A store may ask for more.
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

// Margin returns a tenth of the TTL. A holder stops so long before the TTL, and a
// candidate waits so long beyond it, because the rates of clocks differ.
func Margin(ttl time.Duration) time.Duration { return ttl / 10 }

// A Held is a lease that its holder has.
type Held struct {
	Claim
	// Token is above that of any earlier holding of this name, and stays the same
	// while the lease is renewed.
	Token uint64
	// Until is when the holder must have stopped if it has not renewed: when it
	// sent the renewal, plus TTL, less Margin, on this process's monotonic clock.
	Until time.Time
}

// A HeldError names the holder of the lease. errors.Is reports it as ErrHeld.
type HeldError struct {
	Holder string // empty: not known
	Token  uint64 // of its holding; 0 means not known
	// RetryAfter is when asking again can succeed at the earliest, unless the
	// holder releases the lease before.
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

// Is reports ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }
