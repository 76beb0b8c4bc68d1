// Package pending holds the calls of one process that wait for their answers. An answer
// names its call by a number, and a Table leads from the number to the call, whose caller
// it wakes.
//
// Each try of a call has a number of its own, so that a late answer to an earlier try is
// not taken for the later one's. How a process handles a failed call is not decided here.
//
// A Table has locks and nothing else of the outside world: no goroutine, no clock and no
// I/O. It gets the time with Sweep, and wakes callers through the Caller interface, which is
// a channel in a real process and a step of the schedule in a simulation. Answers may come from
// any goroutine.
package pending
