package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/durablehost"
)

// forgottenFirst and forgottenRest are the times of a shard's walks through its records, for a type
// without a ttl: only those of entities that were forgotten may be left over.
const (
	forgottenFirst = time.Hour
	forgottenRest  = 24 * time.Hour
)

// sweepOf returns the walks through a shard's records for a type with a ttl, or 0.
func sweepOf(ttl time.Duration) durablehost.Sweep {
	if ttl > 0 {
		return durablehost.Sweep{On: true}
	}
	return durablehost.Sweep{On: true, First: forgottenFirst, Rest: forgottenRest}
}
