// Package singleton runs singletons on simulated clusters, by the code that ships: the
// hosting of internal/driver/singlehost (its sets, instances with their shards, and the holders of
// leases) under the control planes of internal/driver/control, on the membership machines of
// sim.World. The messages go over a network of their own that loses, delays, repeats and
// reorders, and the leases are in a store that is slow, out of reach, or whose answers are
// lost. Instances run turns, have tasks that end late, and hand their state off.
//
// A seed decides everything: the settings, the faults (crashes of processes and
// hosts, pauses, partitions, lost messages, orderly and hurried leaving, restarts
// of servers), instances that die, and the guard: a lease, the cluster's downing and
// fencing alone, or, with automatic downing, none.
//
// Checked after every step of any machine:
//
//  1. under a lease, two instances are never active at once, even in a cluster that
//     fell apart. An instance is active from its activation until its stop hook has run,
//     and while a task of it runs, on a node that is not frozen and whose lease has not
//     ended;
//  2. under downing, two instances are never active at once in one cluster, on nodes
//     that may run turns. Clusters that were founded apart, because their founders
//     could not hear each other, count as two until they meet; only a lease guards
//     against those;
//  3. without a guard, two instances are never active on members of one converged view;
//  4. no turn begins on an instance that is not active, no instance ends during a turn or
//     beside its tasks; the invariants of the control plane, the managers and the shard;
//  5. after the faults have ended, one instance runs, on the oldest member, and
//     every process finds it, within two minutes; then its home leaves, and the next one
//     has its state.
//
// [RunLeaves] has runs without faults, in which members leave in order, often within milliseconds
// of each other, and others join. Beside the above:
//
//  6. no turn of an instance is lost while another member is Up or joining, and when all
//     leave nobody waits for another one. In some runs members are killed: then only what the
//     killed one had, or what was on its way at that time, may be lost.
//
// To run ten thousand seeds, or to replay one with its trace:
//
//	go test ./internal/sim/singleton -run TestSeeds -seeds 10000 -timeout 30m
//	go test ./internal/sim/singleton -run TestLeaves -seeds 10000 -timeout 30m
//	go test ./internal/sim/singleton -run TestSeeds -seed 42 -v
package singleton
