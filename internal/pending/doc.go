// Package pending holds the calls of one process that wait for their answers. An answer has the
// number of its call. A Table finds the call by its number, and wakes its caller.
//
// Each attempt of a call has a number of its own, so that a late answer to an earlier attempt
// is not mistaken for an answer to a later one. The package does not decide how a process
// handles a failed call.
//
// A Table has locks, but no goroutine, no clock and no I/O. It gets the time with Sweep, and
// wakes callers through the Caller interface, which is a channel in a real process and a step
// of the schedule in a simulation. Answers may come from any goroutine.
package pending
