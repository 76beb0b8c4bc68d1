// Package chaos makes random runs: small clusters of random settings, with every fault and
// every ordinary event that [sim.World] knows, which must come back to one view. The seed
// decides everything. One run in eight is only a split, mostly between racks of nodes with
// consecutive names; there the side with the majority must not stop.
//
//	go run ./internal/sim/cmd/simulate -scenario random -seeds 10000
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -events
//	go run ./internal/sim/cmd/simulate -scenario random -seed 42 -trace
//
// The second command replays one seed and prints the faults and the members' events; the
// third also prints every message.
//
// To add a fault, put it into the table of faults, and its repair into run.heal. A new
// setting of membership belongs in newPlan.
package chaos
