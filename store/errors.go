package store

import (
	"errors"
	"fmt"
)

// Causes of a store's errors; test with errors.Is.
var (
	// ErrNotFound: there is no record under the key.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the record, the head or the log is not as expected; nothing was
	// written. Read again and decide anew.
	ErrConflict = errors.New("conflict: the revision or position has changed (read and decide again)")
	// ErrBusy: the store refused the write because of others under way. It was not
	// and will not be applied; try the same again.
	ErrBusy = errors.New("store busy: not applied (try the same again)")
	// ErrGone: the log does not have the requested appends: they were trimmed, or the
	// store has lost them.
	ErrGone = errors.New("gone: the log was trimmed, or the store lost a part of it")
	// ErrUnavailable: the store cannot be reached, and nothing was or will be written. Try
	// again later. If it is also [fs.ErrPermission], the user lacks the right that the error
	// names, and trying again does not help until it is granted.
	ErrUnavailable = errors.New("store unavailable")
	// ErrUncertain: the store did not answer. The write was applied, or not, or may
	// be applied yet. See the package's doc for the remedy.
	ErrUncertain = errors.New("outcome uncertain: it may have been applied (read, or try the same again)")
	// ErrTooLarge: the value exceeds MaxValue, MaxAppend, or the store's own limit;
	// nothing was written. A [*TooLargeError] has the sizes.
	ErrTooLarge = errors.New("value too large")
	// ErrBadKey: the key, prefix or revision is not valid.
	ErrBadKey = errors.New("bad key")
	// ErrBadClaim: the claim of a lease is not valid.
	ErrBadClaim = errors.New("bad claim")
	// ErrHeld: another holder has the lease.
	ErrHeld = errors.New("lease is held")
	// ErrLost: the lease is not held any more. Stop what it guards.
	ErrLost = errors.New("lease lost")
)

// A TooLargeError has the sizes. It is ErrTooLarge to errors.Is.
type TooLargeError struct {
	Size  int    // bytes, of the value or append
	Limit int    // bytes that the store takes
	Hint  string // the setting that raises the limit; may be empty
}

// Error names both sizes.
func (e *TooLargeError) Error() string {
	text := fmt.Sprintf("%v: %d bytes: want at most %d", ErrTooLarge, e.Size, e.Limit)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Is reports ErrTooLarge.
func (e *TooLargeError) Is(target error) bool { return target == ErrTooLarge }

// An Error is a failed operation of a store.
type Error struct {
	// Op is "get", "put", "delete", "list", "acquire", "renew", "release", or of a
	// shard "append", "read", "trim", "head", "set head", "get records", "put
	// records", "list records". A store may have further operations.
	Op  string
	Key string // or the prefix, the lease's name, the shard as Type/Number
	Err error  // wraps one of the causes above
}

// Error names the operation, the key and the cause.
func (e *Error) Error() string { return fmt.Sprintf("store: %s %q: %v", e.Op, e.Key, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
