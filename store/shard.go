package store

import (
	"fmt"
	"math"
)

// Bounds of a shard's log and records.
const (
	// MaxType is the longest name of a type, in bytes.
	MaxType = 256
	// MaxShards bounds the numbers of a type's shards: they are below it.
	MaxShards = 4096
	// MaxAppend is the largest append, in bytes. A store may take less, which its
	// [*TooLargeError] says.
	MaxAppend = 512 << 10
	// MaxID is the longest key of a shard's record, in bytes: an entity's id of
	// 1,024 bytes and 16 more by which its user tells kinds of records apart.
	MaxID = 1024 + 16
	// MaxGet is how many records one Get returns at most.
	MaxGet = 256
)

// A Shard is one shard of a type of entities. It has a head, a log, and records.
type Shard struct {
	Type   string // 1 to MaxType bytes, any
	Number int    // 0 to MaxShards-1
}

// String is Type/Number.
func (s Shard) String() string { return fmt.Sprintf("%s/%d", s.Type, s.Number) }

// Check returns an error wrapping ErrBadKey for an invalid shard.
func (s Shard) Check() error {
	if s.Type == "" || len(s.Type) > MaxType {
		return fmt.Errorf("%w: the type's name has %d bytes: want 1 to %d", ErrBadKey, len(s.Type), MaxType)
	}
	if s.Number < 0 || s.Number >= MaxShards {
		return fmt.Errorf("%w: shard %d: want 0 to %d", ErrBadKey, s.Number, MaxShards-1)
	}
	return nil
}

// A Position names one append of a log. Positions of a log grow, with gaps.
type Position uint64

const (
	// Start is before the first append of a log.
	Start Position = 0
	// Any expects nothing of a log's last position.
	Any Position = math.MaxUint64
)

// An Append is the result of one call of Append.
type Append struct {
	Position Position
	Data     []byte // belongs to the caller
}

// A Head is the small record of a shard that refuses the writes of former homes to its records.
type Head struct {
	// Revision of the write that made it; None: the shard has no head yet.
	Revision Revision
	// Since is the position from which on the log is needed: Start, or an append of
	// the log. Trim goes by it.
	Since Position
	// Value is the user's, at most MaxHead bytes. It belongs to the caller.
	Value []byte
}

// MaxHead is the largest value of a head, in bytes.
const MaxHead = 4 << 10

// A Change is one record's part of a Put.
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

// CheckIDs checks the ids of one Get, MaxGet at most.
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
			return fmt.Errorf("%w: record %q twice", ErrBadKey, id)
		}
		seen[id] = true
	}
	return nil
}

// CheckChanges checks the arguments of Put: the head's revision, the ids, and sizes up to limit.
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
			return fmt.Errorf("%w: record %q twice", ErrBadKey, c.ID)
		}
		seen[c.ID] = true
		if err := CheckSize(len(c.Value), limit); err != nil {
			return fmt.Errorf("record %q: %w", c.ID, err)
		}
	}
	return nil
}
