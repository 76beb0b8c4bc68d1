package chaos

import (
	"testing"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/internal/sim/seeds"
)

// TestTableSeeds: random clusters whose members agree by a table return to one view after the
// faults. They break no invariant on the way: see sim.World.Err.
func TestTableSeeds(t *testing.T) {
	all, one := seeds.Run(t, 40, func(seed uint64, trace func(string)) sim.Result[Counts] {
		r := Run(Options{Seed: seed, Table: true, Trace: trace})
		return sim.Result[Counts]{Err: r.Err, Hash: r.Hash, Counts: r.Counts, Settled: r.Settled}
	})
	if !one {
		seeds.Want(t, all, "Ups", "Downs", "Removals", "Leaves", "SelfDowned", "JoinFailed", "Unreachable")
	}
}
