// Package calls is the caller's side of calls: the pending calls of a process, the meaning of an
// answer, and what happens to calls whose process or shard is gone.
//
// A [Table] holds the pending calls. An answer has the number of its call, by which the Table finds
// the call and wakes its caller. Each attempt of a call has its own number, so that a late answer
// to an earlier attempt is not taken for an answer to a later one. [Await] blocks a goroutine until
// the answer has arrived, the call's [Deadline] has passed, or its context has ended. [NextStep]
// and [NextLocally] decide what the caller does next: send the call again after a pause, withdraw
// it, or end it with an [Outcome].
//
// A [Plane] handles answers, refusals, cancellations, the messages that move shards, placements,
// renewed sessions, and departed processes. Calls that a shard accepts do not pass through it. For
// each lost call it decides whether to send the call again, and on which route, or to fail it with
// an unknown outcome. When a process departs, it informs routes and barriers in the right order.
//
// Only wait.go has channels and reads the clock. The other files have neither, nor goroutines or
// I/O: a Table gets the time with Sweep and wakes callers through [Caller], and a Plane works on
// the sessions, routes, shards and calls of its [Env]. In a real process package shard provides
// Caller and Env, in a test the sharding simulation does, so that both run the same code.
//
// # Locks
//
// A Table has its own locks; answers may come from any goroutine. A Plane has no lock, and several
// goroutines may use it at once. Its methods take the locks of routes, shards and sessions, so the
// caller must hold none of these.
package calls
