// Package e2e tests the whole: real processes over a real nats-server.
//
// Its folders build on each other: workload is an entity that tells loss,
// doubling and reordering apart, witness the record of its calls that survives a
// killed process, node the worker process that hosts it, process the control of
// such processes, cluster several of them with a server, load the calls on them
// and the verdict over these, fault the faults that are run meanwhile, and
// cmd/fault the command that runs one and prints its row. idle and cmd/idle
// measure what nodes say while nobody calls them.
package e2e
