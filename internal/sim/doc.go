// Package sim runs whole clusters of the pure cores in virtual time. A [World] is a broker of one
// or several servers and the processes that are connected to it; each process drives its machine as
// internal/driver/control does. All random numbers come from one seed, so one seed is one run.
// [World.Hash] is a hash of every input of every machine and of every event. Two runs of a seed
// must have the same hash.
//
// These packages use it: internal/sim/chaos makes random runs of small clusters with every
// fault; internal/sim/scenario measures one fault at a large cluster; the command
// internal/sim/cmd/simulate runs both; internal/sim/singleton runs singletons on it, and
// internal/sim/sharding all of sharding.
//
// # Replaying a seed
//
// A failing seed is printed with the command that replays it:
//
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -events
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -trace
//
// In a trace "--" is a change of the world, "==" an event of a machine, and "<-" an input of
// a machine. Read the events first: the fault that matters is usually the last but one. Then
// look in the trace for the earlier inputs of the node in question.
//
// A run changes with every change of the cores. A seed that found a bug therefore belongs in the
// message of the fixing commit, and the bug in a transcript of runtime/membership.
//
// # The broker
//
// A connection keeps the order of its messages. A server passes a message on to the
// listeners that it knows: its own nodes at once, and nodes of other servers after hearing of
// them. Only a server that knows no listener answers that nobody listens. A server notices a dead
// process at once, and a vanished host or a process that stands still only after minutes.
// Server instances have new names after a restart.
//
// # Faults
//
// [World.Kill], [World.KillHost], [World.Freeze], [World.Lose], [World.LoseAll], [World.Cut],
// [World.Part], [World.StopServer], drifting clocks ([Place]), connections repeating messages
// (Config.Repeat), a store that does not answer (Config.StoreTrouble). A new fault is a method of
// World that notes itself in the trace.
//
// # Invariants
//
// They are tested after every step; the documentation of type judge in check.go lists them. To add
// an invariant, give it a number there and test it in check, looking only at state that a step can
// have changed. Keep the needed history in the judge, and add a test that breaks the invariant. The
// first broken invariant ends the world: [World.Err]. Conditions that must hold only at the end
// (one view within a stated time) are tested by chaos.
package sim
