package store

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Bounds of a record.
const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 256
	// MaxValue is the largest value, in bytes. It is below the default payload limit of brokers.
	MaxValue = 512 << 10
)

// A Revision identifies one write of a record. The revisions of a store grow: a later write of a
// key has a higher revision, even if the key was deleted in between. None is the revision of a
// record that does not exist.
type Revision uint64

// None is the revision of an absent record.
const None Revision = 0

// A Record is a value stored under a key.
type Record struct {
	Key      string   // obeys CheckKey; in a record of a shard, the record's id
	Value    []byte   // at most MaxValue bytes; belongs to the caller
	Revision Revision // of the write that made the record; None if there is none
}

// A Store keeps small records. All methods are safe for concurrent use, make one attempt, and
// return when ctx ends. A write then fails with ErrUncertain, or with ErrUnavailable if nothing was
// sent; a read fails with ErrUnavailable. These errors wrap ctx's error. All errors are of type
// [*Error].
type Store interface {
	// Get returns the record under key, or ErrNotFound. The result may be out of date, even older
	// than a write that this process has completed. Other errors: ErrUnavailable, ErrBadKey.
	Get(ctx context.Context, key string) (Record, error)
	// Put writes value if the key's revision is expect; None means that there must be no record. It
	// returns the new revision. Put does not keep value, which may be empty. Errors: ErrConflict,
	// ErrUnavailable, ErrUncertain, ErrTooLarge, ErrBadKey.
	Put(ctx context.Context, key string, value []byte, expect Revision) (Revision, error)
	// Delete removes the record if its revision is expect, which must not be None. It has the
	// errors of Put; if there is no record, it fails with ErrConflict.
	Delete(ctx context.Context, key string, expect Revision) error
	// List returns the records whose keys begin with prefix, sorted by key. prefix is "" for all
	// records, or whole segments with a slash at the end. The list is no snapshot: a record that is
	// written meanwhile may be in the list with its old or its new value, or be missing. Errors:
	// ErrUnavailable, ErrBadKey.
	List(ctx context.Context, prefix string) ([]Record, error)
}

// CheckKey returns an error that wraps ErrBadKey unless key has 1 to MaxKey bytes and consists of
// segments of A-Z a-z 0-9 _ - = joined by single slashes.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: %d bytes: want at most %d", ErrBadKey, len(key), MaxKey)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" {
			return fmt.Errorf("%w: %q: empty, or an empty segment", ErrBadKey, key)
		}
		for _, c := range []byte(segment) {
			if !inKey(c) {
				return fmt.Errorf("%w: %q: byte %q (want A-Z a-z 0-9 _ - = and /)", ErrBadKey, key, c)
			}
		}
	}
	return nil
}

func inKey(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '='
}

// CheckPrefix is like CheckKey, for the prefix given to List. A valid prefix is "", or a key
// followed by a slash.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	key, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return fmt.Errorf("%w: prefix %q does not end with a slash", ErrBadKey, prefix)
	}
	return CheckKey(key)
}

// A Backend stores everything that a cluster keeps outside its processes.
type Backend interface {
	Store
	Lease
	// Shards returns the part of the store that keeps the state of entities. It always returns the
	// same value.
	Shards() Shards
}

// A Clock is a store that knows the time. If a [Backend] is a Clock, all processes use the store's
// time for due times and expiry, so their own clocks need not agree. If it is not, each process
// uses its own clock.
type Clock interface {
	// Now returns the time of the store's clock at some moment during the call. The clock need not
	// be right, but should not jump: if several servers answer calls, the clocks of the servers
	// should differ by much less than a second. Now makes one attempt and must be cheap; each
	// process calls it every 30 s. Errors: ErrUnavailable.
	Now(ctx context.Context) (time.Time, error)
}
