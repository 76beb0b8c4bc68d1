package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/sim/seeds"
	"github.com/shardgen/shardgen/internal/util/invariant"
)

// plenty is the number of seeds from which every fault must occur.
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
			"Listed", "Present", "Absent", "Indexing", "Damaged", "Found", "Steady", "Unindexed", "Keyed", "Expired", "Migrated", "Newer", "Swept", "Crashes", "Freezes", "Cuts", "Moves", "Cancels", "Forgets", "Restarts", "Jumps")
	}
}

// TestUnsynced runs random runs in which the server loses what was not on its disk.
func TestUnsynced(t *testing.T) {
	all, one := seeds.Run(t, usual(), RunUnsynced)
	if from, n := seeds.Range(usual()); !one && n >= plenty && from == 0 {
		seeds.Want(t, all, "PutBacks", "Kept", "Void", "Closed", "InOrder")
	}
}

// TestSeedsThatFailed runs seeds that found bugs. A seed is useful only as long as its plan does
// not change.
func TestSeedsThatFailed(t *testing.T) {
	for seed, found := range map[uint64]string{
		40022:   "the store lost the record at which a walk was to end, and the walk never ended",
		102718:  "a checkpoint moved since during a claim, and the trimmed appends counted as lost",
		106031:  "a walk never began, because heads changed faster than it tried again",
		107829:  "as 102718",
		1213433: "as 708905",
		708905:  "the judge believed that a read of an ended entity had seen a commit that came after it",
		730:     "a checkpoint that did not end wrote that an entity had expired, which no commit said, and its id stayed in a leaf",
	} {
		if r := Run(seed, nil); r.Err != nil {
			t.Errorf("seed %d (%s): %v", seed, found, r.Err)
		}
	}
}

// TestUnsyncedSeedsThatFailed is TestSeedsThatFailed for TestUnsynced.
func TestUnsyncedSeedsThatFailed(t *testing.T) {
	for seed, found := range map[uint64]string{
		1008049: "commits of an entity's earlier life were acknowledged again, over those of its present one",
		906773:  "a stale read of the head followed its uncertain write, the shard counted as new, and no record was read",
		1209681: "a shard without a table opened under a head that another home had replaced",
		1011806: "a head needed commits that the log had lost, and the next home opened the shard with an older record",
		2100652: "the judge took an entity's end for lost, of which its home deleted the record",
		9809460: "the judge took a record for a state, although the log still had an older commit, which a home reads",
		9821293: "the judge took for valid what an older home appended behind a claim that the log had lost",
		9968578: "the judge did not know the tells that an older home had appended behind a lost claim",
		9925898: "two homes had one epoch, as the store had lost a head, and the home with commits that the log had lost gave up without a report",
		708228:  "a commit was appended again whose entity only its record had, and the next checkpoint wrote it without its state",
	} {
		if r := RunUnsynced(seed, nil); r.Err != nil {
			t.Errorf("seed %d (%s): %v", seed, found, r.Err)
		}
	}
}

// TestReminders runs random runs in which accounts set reminders.
func TestReminders(t *testing.T) {
	all, one := seeds.Run(t, usual(), RunReminders)
	if from, n := seeds.Range(usual()); !one && n >= plenty && from == 0 {
		seeds.Want(t, all, "Reminders", "Fired", "Looks", "ClockSet", "PutBacks", "Moves", "Freezes", "Crashes")
	}
}

// TestPublishing runs random runs in which accounts publish messages.
func TestPublishing(t *testing.T) {
	all, one := seeds.Run(t, usual(), RunPublishing)
	if from, n := seeds.Range(usual()); !one && n >= plenty && from == 0 {
		seeds.Want(t, all, "Published", "Searched", "Duplicates", "NoStream", "Dead", "Moves", "Freezes", "Crashes", "Restarts", "Jumps")
	}
}

// TestRemindersSeedsThatFailed is TestSeedsThatFailed for runs with reminders.
func TestRemindersSeedsThatFailed(t *testing.T) {
	for seed, found := range map[uint64]string{
		1514479: "a head needed commits that the log had lost, and the next home opened the shard without an entity",
		22694:   "a page was made from a leaf while another leaf was lost, and lacked an entity that a checkpoint had saved meanwhile",
		27555:   "the store lost the head of a checkpoint and the commits before it, but not the record, whose reminder no leaf had",
		2005359: "the judge took an entity's lost end for kept, because the entity had never had a record",
		27752:   "the clock of the store was set back, and retries waited for hours",
	} {
		if r := RunReminders(seed, nil); r.Err != nil {
			t.Errorf("seed %d (%s): %v", seed, found, r.Err)
		}
	}
}
