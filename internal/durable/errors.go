package durable

import "errors"

// ErrTooLarge is a commit that does not fit in an append. Its turn changed nothing.
var ErrTooLarge = errors.New("commit too large (keep less in one entity, change less in one turn, or raise max_payload of the NATS server if it is below 1 MB)")

// ErrNotOpen is a commit for a shard that was dropped. Whether its turn's changes stand, the
// next home knows.
var ErrNotOpen = errors.New("shard is not open")
