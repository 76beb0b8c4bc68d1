// Package sim is the place where whole clusters of the pure cores live in virtual
// time. A [World] is a broker of one or several servers and the processes that
// are connected to it; each process drives its machine as package shard does.
// Everything that is left to chance comes from one seed, so one seed is one run:
// [World.Hash] is a hash of all that happened, and two runs of a seed must have
// the same.
//
// # The broker
//
// A connection keeps the order of what is sent through it. A server hands a
// message on to whom it knows to listen: its own nodes at once, those of other
// servers as far as word of them has come. Where it knows nobody it answers that
// nobody listens, and it is the only one that does. A process that dies is known
// to its server at once; one whose host vanishes, or that stands still, only
// after minutes. Server instances have new names after a restart.
//
// # What can go wrong
//
// [World.Kill], [World.KillHost], [World.Freeze], [World.Lose], [World.LoseAll],
// [World.Cut], [World.Part], [World.StopServer], clocks that drift ([Place]), and
// connections that repeat themselves (Config.Repeat).
//
// # Invariants
//
// They are tested after every step; the list stands at the type judge in
// check.go. To add one, give it a number there and test it in check, from what a
// step can have changed. The first broken one ends the world: [World.Err].
package sim
