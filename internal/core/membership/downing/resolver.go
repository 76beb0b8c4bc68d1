package downing

import (
	"maps"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// A Resolver decides about unreachable members by the configured strategy.
type Resolver struct {
	*core.Node
	Echo        *detector.Echo
	Lease       *lease.Lease
	Execution   *Execution
	Indirect    *Indirect
	Agreement   *Agreement
	Unreachable *Unreachables
	Majority    *Majority
	Company     *Company
	Splits      *Splits
	Fence       *Fence
}

// RunDowning decides which unreachable members are downed. It downs no member while this node's
// echoes do not return, because the fault is then at this node or at the broker.
func (d *Resolver) RunDowning() {
	if d.Phase != core.Joined || d.Config.Downing == splitbrain.DowningManual || !d.Echo.EchoAlive() {
		return
	}
	switch d.Config.Downing {
	case splitbrain.DowningBroker:
		d.Majority.downGone()
		d.Unreachable.noteUnreachable()
		d.Majority.downByMajority()
		if d.Phase == core.Joined {
			d.Company.runCompany()
		}
	case splitbrain.DowningAuto:
		d.Unreachable.noteUnreachable()
		d.autoDown()
	default:
		d.Unreachable.noteUnreachable()
		d.Splits.judgeSplit()
	}
	if d.Phase == core.Joined {
		d.Execution.runBatch()
	}
}

func (d *Resolver) autoDown() {
	if !d.Leads() {
		return
	}
	var victims []gossip.Member
	for _, i := range d.Local().Unreachable {
		r := d.Gossip.Members[i]
		since, ok := d.Unreachable.since[r.Address]
		if !ok || r.Address == d.Config.Self {
			continue
		}
		if at := since.Add(d.Config.AutoDownAfter); d.Now.Before(at) {
			d.WakeAt(at)
			continue
		}
		victims = append(victims, r)
	}
	d.Execution.downTogether(victims)
}

// ForgetRemoved drops the data kept about nodes that are no longer in the state.
func (d *Resolver) ForgetRemoved() {
	gone := func(node transport.Address) bool {
		_, ok := d.Gossip.Index(node)
		return !ok
	}
	for _, times := range []map[transport.Address]time.Time{d.Unreachable.since, d.Unreachable.absent, d.Fence.known, d.Fence.judged, d.Lease.Met} {
		maps.DeleteFunc(times, func(node transport.Address, _ time.Time) bool { return gone(node) })
	}
	maps.DeleteFunc(d.Fence.ups, func(node transport.Address, _ uint32) bool { return gone(node) })
	maps.DeleteFunc(d.Fence.vouches, func(node transport.Address, _ map[transport.Address]time.Time) bool { return gone(node) })
}

// ResetDowning forgets an unfinished claim to the lease for splits. It also forgets when members
// became unreachable, when they were known to be Down, and when they were vouched for. It is called
// after this node's connection was renewed or silent, because those times count only while the node
// hears others and is heard.
func (d *Resolver) ResetDowning() {
	d.Unreachable.since, d.Unreachable.absent = make(map[transport.Address]time.Time), make(map[transport.Address]time.Time)
	d.Unreachable.noted = nil
	d.Agreement.missed = nil
	d.Fence.resetFence()
	d.Splits.unreachable, d.Splits.claim = nil, claim{}
	d.Indirect.forget()
}
