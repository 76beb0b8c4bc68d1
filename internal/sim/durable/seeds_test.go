package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/internal/util/invariant"
)

// plenty is how many seeds must reach every fault.
const plenty = 300

func usual() int {
	if invariant.Race {
		return 10
	}
	return 60
}

// TestSeeds runs random runs.
func TestSeeds(t *testing.T) {
	all, one := seeds.Run(t, usual(), Run)
	if from, n := seeds.Range(usual()); !one && n >= plenty && from == 0 {
		seeds.Want(t, all, "Answered", "Unknown", "Replayed", "Refused", "Overloaded", "Nested", "Mismatches", "Tells", "Leased", "Panics", "TooLarge",
			"Opened", "Reclaimed", "Checkpoints", "Outgrown", "Outclimbed", "Dead", "Followed", "Folded", "Deleted", "Gone", "Sought",
			"Listed", "Present", "Absent", "Indexing", "Damaged", "Expired", "Migrated", "Newer", "Swept", "Crashes", "Freezes", "Cuts", "Moves", "Cancels", "Forgets", "Restarts", "Jumps")
	}
}

// TestUnsynced runs random runs in which the server loses what was not on its disk.
func TestUnsynced(t *testing.T) {
	all, one := seeds.Run(t, usual(), RunUnsynced)
	if from, n := seeds.Range(usual()); !one && n >= plenty && from == 0 {
		seeds.Want(t, all, "PutBacks", "Kept", "Void", "Closed", "InOrder")
	}
}
