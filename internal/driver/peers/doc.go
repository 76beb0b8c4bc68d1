// Package peers holds the sessions of one process, one for each peer and lane. It publishes their
// envelopes through the broker or a direct lane. It also records three sets of peers: left, removed
// (they get no session again), and departed.
//
// A [Stream] drives one end of the reliable, ordered stream that package stream numbers,
// acknowledges and repeats. Besides a lock it has no goroutine, clock or I/O. Those belong to its
// [StreamEnv]: a [Session] in a real process, the sharding simulation in a test. So both run the
// same code. A Session adds the path of its frames, and decides when appended envelopes are
// published.
//
// The package does not handle the calls that a peer leaves unacknowledged: a [Set] returns them to
// its user.
//
// # Locks
//
// A Set has its own lock, which is never held while the Env is called. A session's lock comes after
// all others.
package peers
