package store

import "context"

// Shards keeps the state of the entities of each shard. All methods are safe for concurrent use,
// make one attempt, and return when ctx ends. If ctx ends, a read fails with ErrUnavailable. A
// write then fails with ErrUncertain, or with ErrUnavailable if nothing was sent. These errors wrap
// the error of ctx. All errors are of type [*Error]. Every method may fail with ErrUnavailable and
// ErrBadKey, and every write also with ErrBusy and ErrUncertain. The methods do not keep the bytes
// passed to them.
//
// A write with an uncertain outcome may be applied later, even after later writes of this process,
// but only if the revision or position that it expects is right at that time.
type Shards interface {
	Logs
	Records
}

// Logs are the logs of all shards. Each log has one writer at a time.
type Logs interface {
	// Append adds data, of at most MaxAppend bytes, after the append at position expect, and
	// returns the new position. Start expects an empty log, and Any accepts every log. Append fails
	// with ErrConflict if the log ends at another position than expect, and with ErrTooLarge.
	//
	// After ErrUncertain the same Append may be tried again. If it then fails with ErrConflict, the
	// first try may have been applied. If expect is Any, the data may be in the log twice.
	Append(ctx context.Context, s Shard, expect Position, data []byte) (Position, error)
	// Read returns all appends from position from up to position to, both included. Both are
	// positions of appends, except that from may be Start, for the log's first append. Read returns
	// all these appends or an error, never a part. It fails with ErrGone if the append at from or
	// to is not there, because it was trimmed, never existed, or was lost by the store.
	Read(ctx context.Context, s Shard, from, to Position) ([]Append, error)
	// Trim lets the store remove the log's appends before h.Since, where h is a head that the
	// caller wrote or read. It is a hint: the store may remove fewer appends, or remove them later.
	// It never empties a log.
	Trim(ctx context.Context, s Shard, h Head) error
}

// Records are the shards' heads, and the records that the heads protect.
type Records interface {
	// Head returns the shard's head, with revision None if the shard has no head. The returned head
	// may already have been replaced.
	Head(ctx context.Context, s Shard) (Head, error)
	// SetHead replaces the head if its revision is h.Revision (None expects no head), and returns
	// the new revision. From then on no Put with the former revision is applied. h.Since must not
	// be below that of the replaced head. SetHead fails with ErrConflict, and with ErrTooLarge.
	// After ErrUncertain it may be tried again. If it then fails with ErrConflict, the first try
	// may have been applied: Head shows whether it was.
	SetHead(ctx context.Context, s Shard, h Head) (Revision, error)
	// Get returns the records under ids, at most MaxGet and none twice, in the order of ids. It
	// also returns the head, read at the same time or a moment later. A missing record has revision
	// None. The result reflects at least revision atLeast, which the caller got from SetHead, Put,
	// Head or Get. If all replicas are behind atLeast, Get fails with ErrUnavailable. With None the
	// result may be arbitrarily stale.
	Get(ctx context.Context, s Shard, ids []string, atLeast Revision) (Head, []Record, error)
	// Put writes and deletes records, each only if the shard's head then has the revision head. It
	// returns a revision at which Get sees all changes; if changes is empty, that is head. No id
	// may be in changes twice. Put fails with ErrConflict if the head has another revision, and
	// with ErrTooLarge. After any error but ErrTooLarge and ErrBadKey a part of the changes may
	// have been applied.
	//
	// After ErrUncertain, repeat the same changes until they are applied, or replace the head. Do
	// not put another value under the same head: the first value may arrive late and overwrite it.
	Put(ctx context.Context, s Shard, head Revision, changes []Change) (Revision, error)
	// List returns records with revisions above revision after, in order of revisions, up to about
	// ListBytes; an empty result means the end. The list is no snapshot: a record written during
	// the listing appears later, perhaps a second time, and a record written just before the
	// listing may be missing.
	List(ctx context.Context, s Shard, after Revision) ([]Record, error)
}

// ListBytes bounds the bytes that one List returns; the last record may exceed it.
const ListBytes = 1 << 20
