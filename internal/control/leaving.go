package control

import (
	"github.com/shardgen/shardgen/internal/hostmeta"
	"github.com/shardgen/shardgen/runtime/membership"
)

// leaving takes this member out of the cluster in order: it exits when it has nothing left
// to give away.
type leaving struct {
	m     *Member
	on    bool // the cluster knows that this member leaves
	ready bool // nothing is left to give away
}

// begin begins leaving.
func (l *leaving) begin() {
	l.m.members.step(membership.Leave{})
	l.check()
}

// exit gives leaving in order up: shards that are still here stay.
func (l *leaving) exit() {
	if !l.ready {
		l.m.singles.Abandon()
		l.readyToExit()
	}
}

// check has the cluster remove this member when it leaves and has nothing left to give.
func (l *leaving) check() {
	v, env := l.m.View(), l.m.env
	if l.ready || v == nil || v.SelfStatus != membership.Leaving {
		return
	}
	if !l.m.singles.Settled() {
		return
	}
	if !l.otherHosts(v) {
		l.readyToExit()
		return
	}
	if core := l.m.seat.core; core != nil && !core.HandedDown() || env.HoldsShards() {
		return
	}
	env.SetExiting(true)   // nothing comes in from here on
	if env.HoldsShards() { // but something came before
		env.SetExiting(false)
		return
	}
	l.readyToExit()
}

// readyToExit lets the cluster remove this member, which takes no shard from now on.
func (l *leaving) readyToExit() {
	l.ready = true
	l.m.env.SetExiting(true)
	l.m.members.step(membership.ExitReady{})
}

// otherHosts reports whether another member could take the shards of this one, now or when it
// comes Up.
func (l *leaving) otherHosts(v *membership.View) bool {
	for _, m := range v.ByAge {
		if m.Address != l.m.self.Address && comesUp(m.Status) && hostmeta.HostsAny(m.Member) {
			return true
		}
	}
	return false
}

// comesUp reports whether a member is Up or will soon be.
func comesUp(s membership.Status) bool {
	return s == membership.Joining || s == membership.WeaklyUp || s == membership.Up
}
