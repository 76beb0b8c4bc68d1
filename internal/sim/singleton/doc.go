// Package singleton runs singletons on simulated clusters: the managers and
// proxies of internal/singleton on the membership machines of sim.World, over a
// network of their own that loses, delays, repeats and reorders, with a store of
// leases that is slow, out of reach, or whose answers are lost.
//
// A seed decides everything: the settings, the faults (crashes of processes and
// hosts, pauses, partitions, lost messages, orderly and hurried leaving, restarts
// of servers), instances that die, and the guard: a lease, the cluster's downing and
// fencing alone, or, with automatic downing, none.
//
// Checked after every step of any machine:
//
//  1. under a lease, two instances are never active at once, even in a cluster that
//     fell apart. An instance is active if it has been started and has not stopped, on
//     a node that is not frozen and whose lease has not ended;
//  2. under downing, two instances are never active at once in one cluster, on nodes
//     that may run turns. Clusters that were founded apart, because their founders
//     could not hear each other, count as two until they meet; only a lease guards
//     against those;
//  3. without a guard, two instances are never active on members of one converged view;
//  4. Manager.Check;
//  5. after the faults have ended, one instance runs, on the oldest member, and
//     every proxy has found it, within two minutes.
//
// To run ten thousand seeds, or to replay one with its trace:
//
//	go test ./internal/sim/singleton -run TestSeeds -seeds 10000 -timeout 30m
//	go test ./internal/sim/singleton -run TestSeeds -seed 42 -v
package singleton
