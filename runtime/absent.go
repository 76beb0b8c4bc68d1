package shard

import (
	"slices"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// partWithAbsent ends dealings with homes that this node's routes lead to and that
// are no members: they were removed before it was let in, so no event ever names
// them. Who owns a shard was Up, and who becomes Up has been seen by all that are;
// so a home that a member does not see has been removed. It may still say goodbye.
func (c *control) partWithAbsent() {
	v := c.view.Load()
	if v == nil || v.SelfStatus != membership.Up && v.SelfStatus != membership.Leaving {
		return
	}
	for _, a := range c.plane.homes() {
		if _, member := v.Member(a); !member && !c.plane.hasLeft(a) && !c.plane.hasGone(a) {
			c.node.log.Info("home parted with: it is no member any more", "member", a.String())
			c.plane.peerLeft(a)
		}
	}
}

// bounced notes that nobody listens at the address.
func (c *control) bounced(a transport.Address, server string) {
	c.stepMembers(membership.Unreachable{Peer: a, Server: server})
	if v := c.view.Load(); v != nil {
		if _, member := v.Member(a); !member {
			c.partWithAbsent()
		}
	}
}

// homes are the other processes that routes lead to, each once.
func (pl *plane) homes() (all []transport.Address) {
	for _, k := range *pl.kinds.Load() {
		for i := range k.routes {
			r := &k.routes[i]
			r.Mu.Lock()
			a := r.Core.Owner
			r.Mu.Unlock()
			if !a.IsZero() && a != pl.self.Address && !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// hasGone reports whether all dealings with the process have ended.
func (pl *plane) hasGone(a transport.Address) bool {
	pl.peersMu.RLock()
	defer pl.peersMu.RUnlock()
	return pl.gone.has(a)
}
