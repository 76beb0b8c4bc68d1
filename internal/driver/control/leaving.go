package control

import (
	"github.com/shardgen/shardgen/internal/wire/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
)

// Leave begins leaving gracefully: this member exits when it has given all of its shards and
// singletons away.
func (m *Member) Leave() {
	m.members.step(membership.Leave{})
	m.checkLeaving()
}

// Exit ends a graceful leave: shards that are still at this member are not given away.
func (m *Member) Exit() {
	if !m.exitReady {
		m.singles.Abandon()
		m.readyToExit()
	}
}

// checkLeaving asks for this member's removal once it has nothing left to give away.
func (m *Member) checkLeaving() {
	v, env := m.View(), m.env
	if m.exitReady || v == nil || v.SelfStatus != membership.Leaving {
		return
	}
	if !m.singles.Settled() {
		return
	}
	if !m.otherHosts(v) {
		m.readyToExit()
		return
	}
	if core := m.seat.core; core != nil && !core.HandedDown() || env.HoldsShards() {
		return
	}
	env.SetExiting(true)   // from here on, no shard comes in
	if env.HoldsShards() { // but one may have come in before
		env.SetExiting(false)
		return
	}
	m.readyToExit()
}

// readyToExit lets the cluster remove this member. The member takes no more shards.
func (m *Member) readyToExit() {
	m.exitReady = true
	m.env.SetExiting(true)
	m.members.step(membership.ExitReady{})
}

func (m *Member) otherHosts(v *membership.View) bool {
	for _, o := range v.ByAge {
		if o.Address != m.self.Address && comesUp(o.Status) && hostmeta.HostsAny(o.Member) {
			return true
		}
	}
	return false
}

func comesUp(s membership.Status) bool {
	return s == membership.Joining || s == membership.WeaklyUp || s == membership.Up
}
