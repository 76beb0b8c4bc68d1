// Package control is the control plane of one process: it carries out the outputs of the cores of
// membership, singleton and coordinator. A [Member] is the control plane of a member, and a
// [Client] that of a process outside the cluster. A Client finds a member that serves it. That
// member sends it the shard table and the list of members.
//
// A [Member] is used on one goroutine, the control loop. It gives messages of the control channel
// and the time to the cores, and turns the cores' outputs into messages, tables and orders for the
// shards of this process. It has no goroutine, clock or I/O of its own but uses those of its [Env],
// so that the driver in package shard and a simulation run the same code.
//
// The parts:
//
//	members        the membership: admission, downing and removal of members
//	seat           the coordinator's seat: the member running it, and the coordinator while it is here
//	tableFollower  the shard table from the coordinator, and the coordinator's orders for shards here
//	reports        reports to the coordinator, sent until the table shows their effect
//	gateway        the service for processes outside the cluster
//	seeds          the seeds that have not become members yet
//	singletons     the member as package singlehost sees it
package control
