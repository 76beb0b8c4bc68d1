package durable

import "github.com/shardgen/shardgen/internal/durable"

// Counts count events. They show that the faults reach everything.
type Counts struct {
	Answered, Unknown, Replayed, Refused, Overloaded, Nested, Mismatches, Tells, Leased, Panics, TooLarge int
	Opened, Reclaimed, Checkpoints, Outgrown, Outclimbed, Dead                                            int
	Followed, Folded, Deleted, Gone, Sought                                                               int
	Expired, Migrated, Newer, Swept                                                                       int
	Crashes, Freezes, Cuts, Moves, Cancels, Forgets, Restarts, Jumps                                      int
	PutBacks, Kept, Void, Closed, InOrder                                                                 int // of runs whose server loses what was not on its disk
}

func (c *Counts) event(e durable.Event, above bool) {
	switch {
	case e.Kind == durable.Opened:
		c.Opened++
	case e.Kind == durable.Reclaimed:
		c.Reclaimed++
	case e.Kind == durable.Checkpointed:
		c.Checkpoints++
	case e.Kind == durable.DeadLetter:
		c.Dead++
	case e.Kind == durable.Ended && e.Epoch > 0 && above:
		c.Outclimbed++
	case e.Kind == durable.Ended && e.Epoch > 0:
		c.Outgrown++
	}
}

func (c *Counts) verdict(v durable.Verdict) {
	switch v {
	case durable.Replay:
		c.Replayed++
	case durable.BelowFloor:
		c.Refused++
	case durable.Overloaded:
		c.Overloaded++
	default:
	}
}
