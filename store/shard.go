package store

import (
	"fmt"
	"math"
)

// Bounds of a shard's log and records.
const (
	// MaxType is the longest name of a type, in bytes.
	MaxType = 256
	// MaxShards is one more than the highest number of a shard.
	MaxShards = 4096
	// MaxAppend is the largest append, in bytes. A store may have a lower limit; its
	// [*TooLargeError] then names that limit.
	MaxAppend = 512 << 10
	// MaxID is the longest key of a shard's record, in bytes: an entity's id of at most 1,024
	// bytes, and 16 bytes by which the runtime separates kinds of records.
	MaxID = 1024 + 16
	// MaxGet is the largest number of records that one Get returns.
	MaxGet = 256
)

// A Shard identifies one shard of an entity type. Each shard has a head, a log, and records.
type Shard struct {
	Type   string // 1 to MaxType bytes, any
	Number int    // 0 to MaxShards-1
}

// String returns Type/Number.
func (s Shard) String() string { return fmt.Sprintf("%s/%d", s.Type, s.Number) }

// Check returns an error that wraps ErrBadKey if s is not a valid shard.
func (s Shard) Check() error {
	if s.Type == "" || len(s.Type) > MaxType {
		return fmt.Errorf("%w: the type's name has %d bytes: want 1 to %d", ErrBadKey, len(s.Type), MaxType)
	}
	if s.Number < 0 || s.Number >= MaxShards {
		return fmt.Errorf("%w: shard %d: want 0 to %d", ErrBadKey, s.Number, MaxShards-1)
	}
	return nil
}

// A Position identifies one append of a log. The positions of a log grow, with gaps.
type Position uint64

const (
	// Start is the position before the first append of a log.
	Start Position = 0
	// Any, as the expected position, allows an append after any position.
	Any Position = math.MaxUint64
)

// An Append is one entry of a log, as written by [Logs.Append].
type Append struct {
	Position Position
	Data     []byte // belongs to the caller
}

// A Head is the small record that names a shard's present home. Writes of former homes to the
// shard's records are refused because they name an earlier head.
type Head struct {
	// Revision is the revision of this head's write; None means that the shard has no head yet.
	Revision Revision
	// Since is the position from which the log is needed: Start, or an append of the log. Trim
	// keeps the log from there.
	Since Position
	// Value is the data that the caller of SetHead stores, at most MaxHead bytes. It belongs to the
	// caller.
	Value []byte
}

// MaxHead is the largest value of a head, in bytes.
const MaxHead = 4 << 10

// A Change is what a Put does to one record.
type Change struct {
	ID    string // the record's key, 1 to MaxID bytes, any
	Value []byte // at most MaxValue bytes; an empty one deletes the record
}

// CheckID returns an error that wraps ErrBadKey unless id is 1 to MaxID bytes.
func CheckID(id string) error {
	if id == "" || len(id) > MaxID {
		return fmt.Errorf("%w: the record's key has %d bytes: want 1 to %d", ErrBadKey, len(id), MaxID)
	}
	return nil
}

// CheckSize returns a [*TooLargeError] for a value of more than limit bytes.
func CheckSize(size, limit int) error {
	if size > limit {
		return &TooLargeError{Size: size, Limit: limit}
	}
	return nil
}

// CheckIDs returns an error that wraps ErrBadKey unless ids are valid for one Get: at most MaxGet
// ids, each valid, and none twice.
func CheckIDs(ids []string) error {
	if len(ids) > MaxGet {
		return fmt.Errorf("%w: %d records at once: want at most %d", ErrBadKey, len(ids), MaxGet)
	}
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if err := CheckID(id); err != nil {
			return err
		}
		if seen[id] {
			return fmt.Errorf("%w: record %q occurs twice", ErrBadKey, id)
		}
		seen[id] = true
	}
	return nil
}

// CheckChanges returns an error unless the arguments of a Put are valid: the head's revision, the
// ids, and values of at most limit bytes.
func CheckChanges(head Revision, changes []Change, limit int) error {
	if head == None {
		return fmt.Errorf("%w: expected revision is None: call SetHead first", ErrBadKey)
	}
	seen := make(map[string]bool, len(changes))
	for _, c := range changes {
		if err := CheckID(c.ID); err != nil {
			return err
		}
		if seen[c.ID] {
			return fmt.Errorf("%w: record %q occurs twice", ErrBadKey, c.ID)
		}
		seen[c.ID] = true
		if err := CheckSize(len(c.Value), limit); err != nil {
			return fmt.Errorf("record %q: %w", c.ID, err)
		}
	}
	return nil
}
