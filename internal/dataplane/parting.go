package dataplane

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/routing"
	"github.com/shardgen/shardgen/transport"
)

// ByeGrace is how long a member that left in order may still say goodbye on its lanes before
// the envelopes that it did not acknowledge count as lost.
const ByeGrace = 3 * time.Second

// DismissAfter is how long a process that has left waits for a table that names the homes of
// the calls that it still holds.
const DismissAfter = time.Second

// dismissEvery is how often such a process looks.
const dismissEvery = 5 * time.Millisecond

// Homes returns the other processes that routes lead to, each once, but for those that have
// gone or left.
func (p *Plane) Homes() (all []transport.Address) {
	self := p.env.Self().Address
	p.env.EachRoute(AllLanes, func(r *routing.Route) {
		a := r.Owner()
		if !a.IsZero() && a != self && !slices.Contains(all, a) {
			all = append(all, a)
		}
	})
	return slices.DeleteFunc(all, p.env.Parted)
}

// Needs reports whether a process that leaves waits for one of its shards.
func (p *Plane) Needs() (needs bool) {
	p.env.EachShard(AllLanes, func(s Shard) { needs = needs || s.Needed() })
	return needs
}

// PeerLeft ends the sessions with a member that left in order, when it has had time to say
// goodbye on them.
func (p *Plane) PeerLeft(a transport.Address) {
	p.env.MarkLeft(a)
	p.env.After(ByeGrace, func() { p.PeerGone(a, AllLanes, false) })
}

// Depart ends the part of a process that has left and handles no message any more: calls that
// arrived late are forwarded as soon as a table names a newer home of their shard, or are
// refused after DismissAfter. Then it calls done, before the goodbyes: a peer that receives
// one assumes that all received calls have been answered or forwarded.
func (p *Plane) Depart(done func()) { p.depart(0, done) }

func (p *Plane) depart(waited time.Duration, done func()) {
	if p.mustWait(waited) {
		p.env.After(dismissEvery, func() { p.depart(waited+dismissEvery, done) })
		return
	}
	p.Dismiss()
	done()
}

// mustWait reports whether a process that has waited for that long still waits for a table.
func (p *Plane) mustWait(waited time.Duration) (wait bool) {
	if waited >= DismissAfter {
		return false
	}
	p.env.EachShard(AllLanes, func(s Shard) { wait = wait || s.Holds() })
	return wait
}

// Dismiss refuses the calls that shards of a process that has left still hold.
func (p *Plane) Dismiss() { p.env.EachShard(AllLanes, Shard.Dismiss) }
