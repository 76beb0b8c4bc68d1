// Package sim is the place where whole clusters of the pure cores live in virtual
// time. A [World] is a broker of one or several servers and the processes that
// are connected to it; each process drives its machine as package shard does.
// Everything that is left to chance comes from one seed, so one seed is one run:
// [World.Hash] is a hash of all that happened, every input of every machine and
// every event, and two runs of a seed must have the same.
//
// What is built on it: internal/sim/chaos, random runs of small clusters with
// every fault; internal/sim/scenario, one fault at a large cluster, measured; and
// the command internal/sim/cmd/simulate, that runs both.
//
// # To replay
//
// A failing seed is printed with the command that replays it:
//
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -events
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -trace
//
// In a trace "--" is what is done to the world, "==" what a machine says, and
// "<-" what a machine is given. Read the events first: the fault that matters is
// mostly the last but one. Then look in the trace for what the node in question
// was given before.
//
// A run changes with everything that changes what the cores do. A seed that found
// a bug therefore belongs into the commit that mends it, and what it found into a
// transcript of runtime/membership.
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
// [World.Cut], [World.Part], [World.StopServer], clocks that drift ([Place]),
// connections that repeat themselves (Config.Repeat), a store that does not
// answer (Config.StoreTrouble). A new fault is a method of World that notes itself
// in the trace.
//
// # Invariants
//
// They are tested after every step; the list stands at the type judge in
// check.go. To add one, give it a number there and test it in check, from what a
// step can have changed; keep what it must know of the past in the judge, and let
// a test break it. The first broken one ends the world: [World.Err]. What must
// hold at the end only (one view within a stated time) is chaos's.
package sim
