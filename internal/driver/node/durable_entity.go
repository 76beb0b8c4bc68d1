package node

import (
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/region"
)

// durableEntity is an active entity. Only the goroutine that has the entity's turn may
// use it.
type durableEntity struct {
	region.EntityData
	tenure *durablehost.Tenure // under which it was activated
	state  []byte              // as last committed, or being committed
	last   durable.Ticket      // the ticket of its last commit
	ready  bool                // it has been activated
	woken  bool                // OnActivate has run, and no turn has settled its changes yet
	// expires is the Unix time in milliseconds from which the entity counts as ended; 0 means never.
	expires int64
}

// expired reports whether the entity has outlived its ttl.
func (a *durableEntity) expired() bool {
	return a.expires != 0 && time.Now().UnixMilli() >= a.expires
}
