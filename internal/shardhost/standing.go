package shardhost

import (
	"github.com/shardgen/shardgen/internal/region"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// standing is how a shard stands here, in the coordinator's terms. It reports false when
// the shard is not here at all.
func standing(s *region.Shard) (o coordinator.HeldShard, ok bool) {
	o = coordinator.HeldShard{ShardID: s.ID(), Epoch: s.Epoch(), Move: s.MoveEpoch(), Peer: s.Peer()}
	switch s.State() {
	case region.Open:
		o.State, o.Move, o.Peer = coordinator.Active, 0, transport.Address{}
		if to, epoch, ok := s.Underway(); ok { // it serves on, and will move
			o.State, o.Move, o.Peer = coordinator.Draining, epoch, to
		}
	case region.Draining:
		o.State = coordinator.Draining
	case region.Sent:
		o.State = coordinator.Sent
	case region.Forwarding:
		o.State, o.Epoch = coordinator.Forwarding, s.LastEpoch()
	case region.Preparing:
		o.State, o.Epoch = coordinator.Preparing, 0
	case region.Prepared:
		o.State, o.Epoch = coordinator.Prepared, 0
	default:
		return o, false
	}
	return o, true
}
