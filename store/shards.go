package store

import "context"

// Shards keeps the state of entities, by shards. All methods are safe for
// concurrent use, try once, and return when ctx ends: a write then with
// ErrUncertain, or ErrUnavailable if nothing was sent, anything else with
// ErrUnavailable, wrapped with ctx's error. Their errors are of type [*Error];
// every method may return ErrUnavailable and ErrBadKey, every write ErrBusy and
// ErrUncertain too. Bytes that are passed in are not kept.
//
// A write with an uncertain outcome may be applied later, even after later writes of this
// process. It is applied only if its expectation holds then.
type Shards interface {
	Logs
	Records
}

// Logs are the shards' logs.
type Logs interface {
	// Append adds data, of at most MaxAppend bytes, behind the append at expect and
	// returns its position: Start expects an empty log, and Any expects nothing. It
	// fails with ErrConflict if the log ends elsewhere, and with ErrTooLarge.
	//
	// After ErrUncertain the same Append may be tried again: ErrConflict may then
	// mean that the first one stands. One with Any may then be there twice.
	Append(ctx context.Context, s Shard, expect Position, data []byte) (Position, error)
	// Read returns all appends at positions from from to to, both included: to is
	// that of an append, from too, or Start for the log's first. It returns all of
	// them or an error, never a part. It fails with ErrGone if one of the two is not
	// there, because it was trimmed or never was, or because the store has lost it.
	Read(ctx context.Context, s Shard, from, to Position) ([]Append, error)
	// Trim lets the store remove the log's appends before the Since of h, a head
	// that the caller wrote or has seen. It is a hint: the store may remove fewer,
	// and later. No log is ever emptied.
	Trim(ctx context.Context, s Shard, h Head) error
}

// Records are the shards' heads, and their records under these.
type Records interface {
	// Head returns the shard's head; its revision is None if there is none. It may
	// have been overtaken.
	Head(ctx context.Context, s Shard) (Head, error)
	// SetHead replaces the head if its revision is h.Revision, None where none is
	// expected, and returns the new revision. From then on no Put under the former
	// revision is applied. h.Since must not be below the replaced head's. SetHead fails
	// with ErrConflict, and with ErrTooLarge. After ErrUncertain it may be tried again.
	// ErrConflict may then mean that the first try was applied: Head shows it.
	SetHead(ctx context.Context, s Shard, h Head) (Revision, error)
	// Get returns the records under ids, MaxGet at most and none twice, in the order of
	// ids, and the head as it was then or a moment after. A record that is not there has
	// revision None. The result reflects at least revision atLeast, which the caller got
	// from SetHead, Put, Head or Get. If all replicas are behind it, Get fails with
	// ErrUnavailable. With None the answer may be as stale as it likes.
	Get(ctx context.Context, s Shard, ids []string, atLeast Revision) (Head, []Record, error)
	// Put writes and deletes records, each only if the head's revision is head at that
	// moment. It returns a revision at which Get sees them all; without changes that is
	// head. No id is there twice. It fails with ErrConflict if the head has another
	// revision, and with ErrTooLarge. A part of the changes may have been applied after
	// any error but ErrTooLarge and ErrBadKey.
	//
	// After ErrUncertain, repeat the same changes until they are applied, or
	// replace the head: another value under the same head might be overwritten by
	// the first one, which comes late.
	Put(ctx context.Context, s Shard, head Revision, changes []Change) (Revision, error)
	// List returns records with revisions above after, in that order, up to about
	// ListBytes; none means the end. It is no snapshot: a record written meanwhile
	// appears later, perhaps again, and one written just before may be missing.
	List(ctx context.Context, s Shard, after Revision) ([]Record, error)
}

// ListBytes bounds the bytes that List returns in one call, but for the last record.
const ListBytes = 1 << 20
