package shard

import "github.com/shardgen/shardgen/transport"

// beginAnew parts with all processes but those and forgets where shards live. Calls that
// certainly did not run wait for the next home; those that may have run fail with an
// unknown outcome.
func (pl *plane) beginAnew(members map[transport.Address]bool) {
	pl.kindsMu.Lock()
	pl.table.Store(nil)
	pl.kindsMu.Unlock()
	// Routes first: one that waits for the word of a home which is gone would go on to the
	// next home of the life before, by a session that outlives this.
	forgetHomes(*pl.kinds.Load())
	for _, p := range pl.peers.All() {
		if !members[p.Peer().Address] {
			p.Part()
		}
	}
	for _, a := range pl.peers.Addresses() {
		if !members[a] {
			pl.peers.peerGone(a, -1, false)
		}
	}
	for a := range members {
		pl.peers.Forgive(a) // a life that this client comes back to
	}
	forgetHomes(*pl.kinds.Load()) // again, so that homes are asked for: calls have come back meanwhile
}

// forgetHomes has all routes forget where their shards are, and ask if calls wait.
func forgetHomes(kinds map[string]*kind) {
	for _, k := range kinds {
		for i := range k.routes {
			k.routes[i].BeginAnew()
		}
	}
}
