// Package chaos makes random runs: small clusters of random settings to which
// everything bad, and everything ordinary, happens that [sim.World] knows, and
// which then must find back to one view. The seed decides everything.
// One run in eight is a split and nothing else, mostly between racks of nodes that
// are named in a row: there the side with the majority must not stop.
//
//	go run ./internal/sim/cmd/simulate -scenario random -seeds 10000
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -events
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -trace
//
// The second command replays one seed and prints what was done to the cluster
// and what its members said; the third prints every message too.
//
// To add a fault, put it into the table of faults; what it breaks must be mended
// by run.heal. A new setting of membership belongs into newPlan.
package chaos
