package shard

import "github.com/shardgen/shardgen/transport"

// beginAnew closes the sessions with all processes except members, and forgets the homes
// of shards. Calls that certainly did not run wait for the next home; those that may
// have run fail with an unknown outcome.
func (pl *plane) beginAnew(members map[transport.Address]bool) {
	pl.kindsMu.Lock()
	pl.table.Store(nil)
	pl.kindsMu.Unlock()
	// Routes come first. A route that waits for word from a home that is gone would
	// otherwise go to the next home of the former cluster, by a session that outlives this
	// function.
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
		pl.peers.Forgive(a) // the client may come back to this incarnation
	}
	forgetHomes(*pl.kinds.Load()) // again, so that homes are asked for: calls have come back meanwhile
}

// forgetHomes makes all routes forget the homes of their shards, and ask for new ones
// if calls wait.
func forgetHomes(kinds map[string]*kind) {
	for _, k := range kinds {
		for i := range k.routes {
			k.routes[i].BeginAnew()
		}
	}
}
