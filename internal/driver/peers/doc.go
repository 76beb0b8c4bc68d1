// Package peers holds the sessions of one process with the others, one for each peer and
// lane. It publishes their envelopes by the broker or a direct lane, and knows which peers have
// left, which were removed and get no session again, and which have departed.
//
// A [Stream] drives one end of the reliable, ordered stream that package stream numbers,
// acknowledges and repeats. It has a lock and nothing else of the outside world: no goroutine,
// no clock and no I/O. Those belong to its [StreamEnv], which is a [Session] in a real process and
// the sharding simulation in a test, so that both run the same code. A Session adds the way of
// its frames and decides when appended envelopes are published.
//
// The package does not handle the calls that a peer leaves unacknowledged: a [Set] returns them to
// its user.
//
// # Locks
//
// A Set has a lock of its own, which is never held while the Env is called. A session's lock
// comes after it, and last of all.
package peers
