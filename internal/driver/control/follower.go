package control

import (
	"time"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type tableFollower struct {
	m      *Member
	core   *coordinator.Follower
	table  *placement.Table // the latest shard table; nil before the first
	wakeAt time.Time
}

func (f *tableFollower) tick(now time.Time) {
	if due(f.wakeAt, now) {
		f.step(transport.Address{}, nil)
	}
}

func (f *tableFollower) message(from transport.Peer, msg coordinator.Message) {
	m := f.m
	switch msg := msg.(type) {
	case coordinator.Inspect:
		m.SendPlacement(from, coordinator.Inspected{ID: msg.ID, Shards: m.env.InspectShards(msg.Type)})
		return
	case coordinator.Inspected:
		m.answered(msg.ID, from.Address, msg)
		return
	case coordinator.Register, coordinator.Ask, coordinator.TableRequest, coordinator.SetPins, coordinator.PinsKept, coordinator.Explain, coordinator.MoveStatus,
		coordinator.Balance, coordinator.PoolLoad, coordinator.MemberLoad, coordinator.PauseKept, coordinator.MoveDone, coordinator.MoveAborted, coordinator.MoveCancelled:
		if from.Client {
			m.gateway.placement(from, msg)
		} else if m.seat.core != nil {
			m.seat.step(coordinator.Receive{From: from.Address, Message: msg})
		}
		return
	}
	if f.heeds(from) && f.step(from.Address, msg) {
		f.order(msg)
	}
}

// heeds reports whether to accept a coordinator's messages from a process: the process must be a
// member that is not Down. A joining process also hears coordinators of other clusters with the
// same name, and epochs of different clusters cannot be compared. A coordinator that was paused and
// then declared down may cancel moves when it continues. That would drop the only remaining copy of
// a shard's state.
func (f *tableFollower) heeds(from transport.Peer) bool {
	v := f.m.View()
	if from.Client || v == nil {
		return false
	}
	member, known := v.Member(from.Address)
	return known && member.Status != membership.Down
}

func (f *tableFollower) step(from transport.Address, msg coordinator.Message) bool {
	m := f.m
	before := f.core.Coordinator()
	out := f.core.Step(m.env.Now(), from, msg)
	f.wakeAt = out.WakeAt
	if f.core.Coordinator() != before {
		m.reports.at = m.env.Now() // reports to the former coordinator may be lost with it
	}
	if out.Table != nil {
		f.table = out.Table
		m.env.SetTable(out.Table)
		m.reports.tableChanged(out.Table)
		m.gateway.tableChanged(out.Table)
		m.reports.askForHomes()
		m.checkLeaving()
	}
	if out.Register {
		kinds, held := m.env.Inventory()
		r := f.core.Register(m.self.Address, kinds, held)
		r.Capacity, r.Zone = m.cfg.Capacity, m.cfg.Zone
		m.SendPlacement(transport.Peer{Address: out.Coordinator}, r)
	}
	for _, msg := range out.Send {
		m.SendPlacement(transport.Peer{Address: out.Coordinator}, msg)
	}
	return !out.Refused
}

func (f *tableFollower) register() {
	f.core.Changed()
	f.step(transport.Address{}, nil)
}

// progressed handles the progress of a shard here. If a new coordinator has not sent a table yet,
// progressed registers this process again, because such a coordinator knows only what processes
// have registered.
func (f *tableFollower) progressed() {
	if f.core.Unsettled() {
		f.register()
	}
}

func (f *tableFollower) coordinator() transport.Address {
	if a := f.core.Coordinator(); !a.IsZero() {
		if v := f.m.View(); v != nil {
			if m, ok := v.Member(a); ok && m.Status < membership.Exiting {
				return a
			}
		}
	}
	return f.m.seat.manager.Oldest()
}

func (f *tableFollower) pause() coordinator.Pause {
	if core := f.m.seat.core; core != nil && core.Pause().Seq > f.core.Pause().Seq {
		return core.Pause()
	}
	return f.core.Pause()
}

func (f *tableFollower) order(msg coordinator.Message) {
	m := f.m
	switch msg := msg.(type) {
	case coordinator.NoHome:
		m.reasons.Note(msg.Type, msg.Reason, m.env.Now())
		m.gateway.noHome(msg)
	case coordinator.PinsSet:
		m.answered(msg.ID, m.self.Address, msg)
	case coordinator.Balanced:
		m.answered(msg.ID, m.self.Address, msg)
	case coordinator.Explained:
		m.answered(msg.ID, m.self.Address, msg)
	case coordinator.MoveBegin:
		f.obey(msg.ShardID, msg)
	case coordinator.MoveCancel:
		if !f.obey(msg.ShardID, msg) {
			m.ToCoordinator(coordinator.MoveCancelled(msg))
		}
	}
}

func (f *tableFollower) obey(id placement.ShardID, msg coordinator.Message) bool {
	s := f.m.env.Shard(id)
	if s == nil {
		return false
	}
	if answer := s.Obey(msg, f.core.Term()); answer != nil {
		f.m.ToCoordinator(answer)
	}
	return true
}
