// Package peers holds the sessions of one process with the others, one for each peer and
// lane, and decides when appended envelopes are published, and by which way. It knows which
// peers have left, which were removed and get no session again, and which have departed.
//
// It does not handle the calls that a peer leaves unacknowledged: a Set returns them to its
// user.
//
// # Locks
//
// A Set has a lock of its own, which is never held while the Env is called. A session's lock
// comes after it, and last of all.
package peers
