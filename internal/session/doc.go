// Package session drives the reliable, ordered streams between two processes. Package
// call numbers, acknowledges and repeats the envelopes of a stream. A Session has the
// lock of that machine, publishes for it, one goroutine at a time, and wakes it.
//
// A Session has a lock and nothing else of the outside world: no goroutine, no clock and no
// I/O. Those belong to its Env, which is package peers in a real process and the sharding
// simulation in a test, so that both run the same code.
package session
