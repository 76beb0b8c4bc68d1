// Package durablehost drives the shards of durable entities: it joins the pure core in
// internal/core/durable to a store, to time and to goroutines.
//
// A [Shard] is one shard at one process, for as long as the process lives. While the shard is
// placed there it has a [Tenure], which claims the shard in the store, recovers it, and commits the
// changes of turns. After a tenure ended by the store another one follows after a pause, under a
// higher epoch of its own, so that the shard serves again when the cause is gone.
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
// The next turn of the entity may begin before the commit of the one before is in the log:
// commits have the order of their tickets, and nothing leaves before its ticket.
//
// # Claims
//
// A process has few [Claims] under way at a time, those first for which calls wait. So after a
// restart of everything the first call is answered when a few shards are claimed, and not all.
//
// # Goroutines
//
// One append of a shard is under way at a time. It has a goroutine while it lasts, unless the
// store can send it without one. Each read of records and each write of a checkpoint has one, too.
// The [Host] starts these goroutines and waits for them. An idle shard has a timer and no
// goroutine. Functions given to [Tenure.Then] are called without a lock, on the goroutine that has
// learned of the acknowledgement or on the caller's, and must not block.
package durablehost
