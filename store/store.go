package store

import (
	"context"
	"fmt"
	"strings"
)

// Bounds of a record.
const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 256
	// MaxValue is the largest value, in bytes. It leaves room below the payload
	// limit that brokers start with.
	MaxValue = 512 << 10
)

// A Revision names one write of a record. A store's revisions grow: a later
// write of a key has a higher one, also when the key was deleted in between.
// None is the revision of a record that does not exist.
type Revision uint64

// None is the revision of an absent record.
const None Revision = 0

// A Record is a value under a key.
type Record struct {
	Key      string   // as CheckKey allows it; of a shard's record, its id
	Value    []byte   // at most MaxValue bytes; belongs to the caller
	Revision Revision // of the write that made it; None where nothing is
}

// A Store keeps small records. All methods are safe for concurrent use, try once,
// and return when ctx ends: a write then with ErrUncertain, or ErrUnavailable if
// nothing was sent, anything else with ErrUnavailable, wrapped with ctx's error.
// Their errors are of type [*Error].
type Store interface {
	// Get returns the record under key, or ErrNotFound. Its result may be out of date,
	// even relative to a write of which this process had the answer. Other errors:
	// ErrUnavailable, ErrBadKey.
	Get(ctx context.Context, key string) (Record, error)
	// Put writes value if the key's revision is expect; None means that there must
	// be no record. It returns the new revision. Value is not kept, and may be
	// empty. Errors: ErrConflict, ErrUnavailable, ErrUncertain, ErrTooLarge,
	// ErrBadKey.
	Put(ctx context.Context, key string, value []byte, expect Revision) (Revision, error)
	// Delete removes the record if its revision is expect, which must not be None.
	// Errors are those of Put; a record that is not there is ErrConflict.
	Delete(ctx context.Context, key string, expect Revision) error
	// List returns the records whose keys begin with prefix, sorted by key: "" for
	// all, else whole segments with the slash. It is no snapshot: a record that is
	// written meanwhile may be there as it was, as it is, or be missing. Errors:
	// ErrUnavailable, ErrBadKey.
	List(ctx context.Context, prefix string) ([]Record, error)
}

// CheckKey returns an error wrapping ErrBadKey unless key has 1 to MaxKey bytes: segments
// of A-Z a-z 0-9 _ - = joined by single slashes.
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

// CheckPrefix is CheckKey for List: "", or a key and a slash.
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

// A Backend is a store for everything that a cluster keeps.
type Backend interface {
	Store
	Lease
	// Shards returns the part that keeps the state of entities, always the same.
	Shards() Shards
}
