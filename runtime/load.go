package shard

import (
	"math"

	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/runtime/placement"
)

// reportOf converts a measurement to the message for the coordinator.
func reportOf(l *node.ProcessLoad) coordinator.MemberLoad {
	r, other := coordinator.MemberLoad{Memory: thousandths(l.Memory)}, l.Used
	for i := range l.Types {
		t := &l.Types[i]
		other -= t.Used()
		for _, s := range t.Shards {
			r.Shards = append(r.Shards, coordinator.ShardLoad{ShardID: placement.ShardID{Kind: t.Kind, Shard: s.Shard}, Level: coordinator.LevelOf(s.Used)})
		}
	}
	r.Other = thousandths(other)
	return r
}

// thousandths returns v in thousandths, rounded, up to coordinator.MaxCapacity.
func thousandths(v float64) uint32 {
	return uint32(min(coordinator.MaxCapacity, max(0, math.Round(1000*v))))
}
