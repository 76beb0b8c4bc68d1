package store

import (
	"errors"
	"fmt"
)

// Causes of a store's errors; test with errors.Is.
var (
	// ErrNotFound: there is no record under the key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record has another revision than was expected; nothing was
	// written. Read again and decide anew.
	ErrConflict = errors.New("conflict: the record has another revision (read it and decide anew)")
	// ErrUnavailable: the store cannot be reached, and nothing was or will be
	// written. Try again later.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUncertain: the store did not answer. The write was applied, or not, or may
	// be applied yet. See the package's doc for what to do.
	ErrUncertain = errors.New("outcome uncertain: it may have been applied (read, or try the same again)")
	// ErrTooLarge: the value exceeds MaxValue, or the store's own limit.
	ErrTooLarge = errors.New("value too large")
	// ErrBadKey: the key, prefix or revision cannot be.
	ErrBadKey = errors.New("bad key")
	// ErrBadClaim: the lease's claim cannot be.
	ErrBadClaim = errors.New("bad claim")
	// ErrHeld: another holder has the lease.
	ErrHeld = errors.New("lease is held")
	// ErrLost: the lease is not held any more. Stop what it guards.
	ErrLost = errors.New("lease lost")
)

// An Error is a failed operation of a store.
type Error struct {
	Op  string // "get", "put", "delete", "list", "acquire", "renew", "release"
	Key string // or the prefix, or the lease's name
	Err error  // wraps one of the causes above
}

// Error reads op: subject: cause.
func (e *Error) Error() string { return fmt.Sprintf("store: %s %q: %v", e.Op, e.Key, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
