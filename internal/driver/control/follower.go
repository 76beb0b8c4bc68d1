package control

import (
	"time"

	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// A tableFollower drives the state machine that follows the shard table, and passes the
// coordinator's orders to the shards of this process.
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

// message handles a message of the coordinator's protocol: it carries out an order, or passes the
// message to the coordinator if the coordinator runs here.
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
		coordinator.Balance, coordinator.PauseKept, coordinator.MoveDone, coordinator.MoveAborted, coordinator.MoveCancelled:
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

// heeds reports whether a process may be this process's coordinator: it must be a member. A joining
// process also hears coordinators of other clusters with the same name, even of the cluster from
// which it was cut off. The epochs of those clusters cannot be compared with the epochs of the
// cluster that admits the process.
func (f *tableFollower) heeds(from transport.Peer) bool {
	v := f.m.View()
	if from.Client || v == nil {
		return false
	}
	_, member := v.Member(from.Address)
	return member
}

// step gives the state machine one input and carries out its output. It reports whether to carry
// out the order in the message.
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
		m.reports.askForRemembered()
		m.checkLeaving()
	}
	if out.Register {
		kinds, held := m.env.Inventory()
		m.SendPlacement(transport.Peer{Address: out.Coordinator}, f.core.Register(m.self.Address, kinds, held))
	}
	for _, msg := range out.Send {
		m.SendPlacement(transport.Peer{Address: out.Coordinator}, msg)
	}
	return !out.Refused
}

// register makes the process register again with the coordinator.
func (f *tableFollower) register() {
	f.core.Changed()
	f.step(transport.Address{}, nil)
}

// progressed registers this process again if a new coordinator has not sent its first table yet.
// Until then the coordinator knows only what processes have registered.
func (f *tableFollower) progressed() {
	if f.core.Unsettled() {
		f.register()
	}
}

// coordinator returns the member to ask about homes; zero means none.
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

// pause returns the pause of rebalancing, as this process knows it.
func (f *tableFollower) pause() coordinator.Pause {
	if core := f.m.seat.core; core != nil && core.Pause().Seq > f.core.Pause().Seq {
		return core.Pause()
	}
	return f.core.Pause()
}

// order handles a message of the coordinator to this process: an order, an answer or a notice.
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

// obey passes an order to the shard that it is about, and the shard's answer to the coordinator. It
// reports false if this process has no such shard.
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
