package shard

import "github.com/shardgen/shardgen/transport"

// beginAnew closes the sessions with all processes except members, and forgets the homes
// of shards. Calls that certainly did not run wait for the next home; those that may
// have run fail with an unknown outcome.
func (drv *driver) beginAnew(members map[transport.Address]bool) {
	drv.kindsMu.Lock()
	drv.table.Store(nil)
	drv.kindsMu.Unlock()
	drv.data.BeginAnew(members)
}
