// Package singleton runs singletons on simulated clusters. It simulates the code that users run:
// the hosting of internal/driver/singlehost (sets, instances with their shards, and holders of
// leases) under the control planes of internal/driver/control. The membership machines are those of
// sim.World. Messages go over a network of this package that loses, delays, repeats and reorders.
// The leases are in a store that is slow or unreachable, or loses answers. Instances run turns,
// have tasks that end late, and hand off their state.
//
// A seed decides everything: the settings, the faults (crashes of processes and hosts, pauses,
// partitions, lost messages, orderly and hurried leaving, restarts of servers), instances that die,
// and the guard. The guard is a lease, downing with fencing, or, with automatic downing, none.
//
// After every step of any machine these are checked:
//
//  1. Under a lease, two instances are never active at once, even in a cluster that
//     has fallen apart. An instance is active from its activation until its stop hook has run, and
//     while its tasks run, on a node that is not frozen and whose lease lasts.
//  2. Under downing, two instances are never active at once in one cluster, on nodes
//     that may run turns. Clusters that were founded apart, because their founders
//     could not hear each other, count as two until they meet; only a lease prevents
//     these.
//  3. Without a guard, two instances are never active on members of one converged view.
//  4. No turn begins on an instance that is not active. No instance ends during a turn
//     or while its tasks run. The invariants of control plane, managers and shard hold.
//  5. Within two minutes after the last fault, one instance runs, on the oldest
//     member, and every process finds it. Then its home leaves, and the next instance
//     has its state.
//
// [RunLeaves] has runs without faults, in which members leave in order, often within milliseconds
// of each other, and others join. There another invariant holds:
//
//  6. No turn of an instance is lost while another member is Up or joining. When all
//     members leave, none waits for another one. In some runs members are killed: then
//     only what a killed member had, or what was sent to it, may be lost.
//
// To run ten thousand seeds, or to replay one with its trace:
//
//	go test ./internal/sim/singleton -run TestSeeds -seeds 10000 -timeout 30m
//	go test ./internal/sim/singleton -run TestLeaves -seeds 10000 -timeout 30m
//	go test ./internal/sim/singleton -run TestSeeds -seed 42 -v
package singleton
