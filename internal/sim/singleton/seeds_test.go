package singleton

import (
	"testing"

	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/internal/util/invariant"
)

func usual() int {
	if invariant.Race {
		return 40
	}
	return 200
}

// TestSeedsThatFailed runs the seeds that found bugs.
func TestSeedsThatFailed(t *testing.T) {
	for seed, bug := range map[uint64]string{
		2000379: "a member that came back was heard by a node that joined, which formed a cluster beside it all the same",
		2007587: "a member that did not know of its removal downed the other, which was alone and whose lease had no end",
	} {
		if r := Run(seed, nil); r.Err != nil {
			t.Errorf("seed %d: %v (before: %s)", seed, r.Err, bug)
		}
	}
}

// TestSeeds runs random runs.
func TestSeeds(t *testing.T) {
	if all, one := seeds.Run(t, usual(), Run); !one {
		seeds.Want(t, all, "Started", "Handed", "Tasks", "Turns", "Died", "Leases", "LeasesLost", "Halves", "Found")
	}
}

// TestLeaves runs random runs of planned leaves.
func TestLeaves(t *testing.T) {
	if all, one := seeds.Run(t, usual(), RunLeaves); !one {
		seeds.Want(t, all, "Handed", "Tasks", "Turns", "Leases")
	}
}
