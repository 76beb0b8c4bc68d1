// Package control is the control plane of one process: it carries out the effects that the cores of
// membership, singleton and coordinator ask for. A [Member] is the control plane of a member, and a
// [Client] that of a process outside the cluster. A client finds a serving member, and follows the
// table and the list of members sent by it.
//
// A [Member] is used on one goroutine, the control loop. It takes messages of the control
// channel and the time, gives them to the cores, and turns their effects into messages,
// tables and orders for the shards of this process. It has no goroutine, clock or I/O of its
// own: it has them from its [Env]. So the driver in package shard and a simulation run the
// same code.
//
// The parts:
//
//	members        the membership: admission, downing and removal of members
//	seat           the coordinator's seat: which member runs it, and the coordinator while it is here
//	tableFollower  the table of homes from the coordinator, and its orders for shards here
//	reports        reports to the coordinator, sent until the table shows their effect
//	gateway        processes outside the cluster that this member serves
//	seeds          the seeds of which none has become a member yet
//	singletons     the member as the singletons of the user see it
package control
