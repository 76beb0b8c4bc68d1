// Package calls is the caller's side of calls: the calls of a process that wait for answers, the
// meaning of an answer, and the fate of calls whose process or shard is gone.
//
// A [Table] holds the calls that wait. An answer has the number of its call; the Table finds the
// call by it, and wakes its caller. Each attempt of a call has a number of its own, so that a late
// answer to an earlier attempt is not mistaken for an answer to a later one. [Await] lets a
// goroutine wait until the answer has arrived, the call's [Deadline] has passed, or its context has
// ended. [NextStep] and [NextLocally] are the decisions of the caller: a call is sent again after a
// pause, or is withdrawn, or ends with an [Outcome].
//
// A [Plane] handles answers, refusals, cancellations, the steps of a move, placements, renewed
// sessions, and departed processes. Calls that a shard takes do not pass through it. It decides
// about each lost call: send it again, on which route, or fail it with an unknown outcome. It also
// orders the news of a departed process for calls and barriers.
//
// Only wait.go has channels and reads the clock. Everything else has neither, nor a goroutine nor
// I/O: a Table gets the time with Sweep and wakes callers through [Caller], and a Plane works on the
// sessions, routes, shards and calls of its [Env]. Both are package shard's in a real process and
// the sharding simulation's in a test, so that both run the same code.
//
// # Locks
//
// A Table has locks of its own; answers may come from any goroutine. A Plane has none, and may be
// used by several goroutines at once. Its methods take the locks of routes, shards and sessions, so
// that none of these may be held by the caller.
package calls
