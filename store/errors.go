package store

import (
	"errors"
	"fmt"
)

// Causes of a store's errors; test with errors.Is.
var (
	// ErrNotFound: there is no record under the key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the revision or position of the record, head or log is not the expected one;
	// nothing was written. Read again and decide again.
	ErrConflict = errors.New("conflict: the revision or position has changed (read and decide again)")
	// ErrBusy: the store refused the write because other writes were under way. The write was not
	// and will not be applied; try the same write again.
	ErrBusy = errors.New("store busy: write not applied (try the same write again)")
	// ErrGone: the log does not have the requested appends, because they were trimmed, or the store
	// has lost them.
	ErrGone = errors.New("gone: the log was trimmed, or the store lost a part of it")
	// ErrUnavailable: the store cannot be reached, and nothing was or will be written. Try again
	// later. If errors.Is also matches [fs.ErrPermission], the user lacks the right that the error
	// names, and trying again is useless until the right is granted.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUncertain: the store did not answer. The write was applied, was not applied, or may still
	// be applied. See the package's doc for the remedy.
	ErrUncertain = errors.New("outcome uncertain: the write may have been applied (read, or try the same write again)")
	// ErrTooLarge: the value exceeds MaxValue, MaxAppend, or the store's own limit;
	// nothing was written. A [*TooLargeError] has the sizes.
	ErrTooLarge = errors.New("value too large")
	// ErrBadKey: the key, prefix or revision is not valid.
	ErrBadKey = errors.New("bad key")
	// ErrBadClaim: the claim of a lease is not valid.
	ErrBadClaim = errors.New("bad claim")
	// ErrHeld: another holder has the lease.
	ErrHeld = errors.New("lease is held")
	// ErrLost: the caller no longer holds the lease. Stop what the lease guards.
	ErrLost = errors.New("lease lost")
)

// A TooLargeError has the value's size and the limit. errors.Is matches it with ErrTooLarge.
type TooLargeError struct {
	Size  int    // bytes, of the value or append
	Limit int    // bytes that the store takes
	Hint  string // the setting that raises the limit; may be empty
}

// Error returns a text with both sizes.
func (e *TooLargeError) Error() string {
	text := fmt.Sprintf("%v: %d bytes: want at most %d", ErrTooLarge, e.Size, e.Limit)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Is reports true for ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// An Error is a failed operation of a store.
type Error struct {
	// Op is the operation: "get", "put", "delete", "list", "acquire", "renew" or "release", or an
	// operation of a shard: "append", "read", "trim", "head", "set head", "get records", "put
	// records" or "list records". A store may have further operations.
	Op  string
	Key string // the record's key, the prefix, the lease's name, or the shard as Type/Number
	Err error  // wraps one of the causes above
}

// Error returns the operation, the key and the cause.
func (e *Error) Error() string { return fmt.Sprintf("store: %s %q: %v", e.Op, e.Key, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
