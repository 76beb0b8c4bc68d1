// Package durable decides, without I/O, what one home of a shard of durable entities does during its
// tenure: what it appends to the shard's log, when answers and tells may leave, which commands were
// applied, and how the shard is recovered.
//
// A [Shard] lives from the claim under one epoch until it is dropped. A home that gets the shard
// again, or continues under another epoch, makes a new Shard, with a new claim. Its driver gives it
// the store's answers ([Shard.Done]), the time ([Shard.Tick]), calls ([Shard.Admit]) and the ends
// of turns ([Shard.Commit], [Shard.Observe]), and carries out the effects that [Shard.Take]
// returns.
//
// # The data in the store
//
// A head names the shard's home. It changes by compare-and-set, at a claim and at a checkpoint, and
// every write of a record names the head's revision. The log has a claim for each home, and behind
// it that home's appends, each by a compare-and-set on the log's last position. Records hold
// passivated entities, the leaves of the catalog, and the shard's table: the applied commands, the
// waiting tells, and the directory of the leaves.
//
//	claim:       head (compare-and-set, since kept) → claim appended, expecting nothing
//	             → log read from since up to the claim → table read under the head
//	commit:      pending → one append under way → acknowledged → its answers and tells leave
//	conflict:    head read; the end if it is another home's → claim again → the log shows which appends count
//	checkpoint:  leaves read that change → records of acknowledged bytes and leaves → table
//	             → head with the new since → trim
//
// An append counts if it belongs to the highest claim before it (see chain). Homes are distinguished
// by epoch and incarnation, and the claims of one home by number.
//
// # The catalog
//
// The catalog lists the ids of a shard's entities in order. Its leaves have the ids of the stored
// records, and the tail has those added or removed since. A page merges both. If the store has lost
// a leaf, or a program without catalogs wrote the shard's data, the shard reads all records, and
// the next checkpoint writes all leaves.
//
// # Answers and tells that may leave
//
// Commits have tickets, in the order of the log. An answer waits for the ticket of its own commit.
// A nested call, and an answer to a turn without changes, wait for the ticket of [Shard.Seen] or
// [Shard.Observe]. An answer that the driver holds back leaves once [Effects.Durable] has reached
// its ticket. If the shard is dropped before, the answer never leaves: its caller sends the same
// command to the next home, and gets the answer there.
//
// # Commands
//
// A command is named by its source, its number at that source, and the path of nested calls below
// it. The table keeps applied commands with their answers, until the source's floor passes them. A
// command below the floor is refused. A caller's process that was silent for [Limits.Silent] is
// forgotten. Another shard's log never is, because it may send tells again at any time.
//
// A turn that runs again may make other calls than its first run did, because another command may
// have come first. The calls of the first run are not undone.
package durable
