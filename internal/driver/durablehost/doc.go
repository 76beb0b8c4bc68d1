// Package durablehost drives the shards of durable entities: it connects the pure core
// in internal/core/durable with a store, the clock and goroutines.
//
// A [Shard] is one shard at one process, for as long as the process lives. While the shard is
// placed there it has a [Tenure], which claims the shard in the store, recovers it, and commits the
// changes of turns. If the store ends a tenure, another one begins after a pause, under a higher
// epoch, so that the shard serves again when the cause is gone.
//
// # A turn
//
//	t, err := shard.Tenure(ctx)         // waits until the shard is claimed
//	a := t.Admit(command)               // Replay: it was applied; answer a.Answer
//	loaded, err := t.Load(ctx, entity)  // once for each activation
//	…                                   // the method runs
//	ticket, err := t.Commit(turn)       // or t.Observe, if it changed nothing
//	t.Then(ticket, answer)              // the answer leaves when the log has the commit
//
// The entity's next turn may begin before the last turn's commit is in the log: commits are appended
// in the order of their tickets, and no answer leaves before its ticket is in the log.
//
// # Claims
//
// A process runs few [Claims] at a time, first those that calls wait for. After a full restart, the
// first call is therefore answered as soon as a few shards are claimed.
//
// # Time
//
// Entities expire by the time of the store, which a process knows by its [Clock]. A tenure's core
// gets that time without jumps, because the core also measures durations by it.
//
// # Goroutines
//
// A shard has one append running at a time. The append has its own goroutine, unless the store can
// send it without one. Each read of records and each write of a checkpoint has its own goroutine,
// too. The [Host] starts these goroutines and waits for them. An idle shard has a timer and no
// goroutine. Functions given to [Tenure.Then] must not block. They are called without a lock, on
// the caller's goroutine or on the one that receives the acknowledgement.
package durablehost
