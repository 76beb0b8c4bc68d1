// Package node is the engine of a process of the cluster, behind package shard: it routes calls to
// their shards, runs the turns of entities, commits the turns of durable types, passivates entities
// and moves shards. It has no goroutine before its driver is opened.
//
// A Driver is the data plane of one process. It knows each type as a Kind, which has a Route for
// each shard. A node has a Host for each type that it hosts. A Host has a HostedShard for each
// shard. The Driver calls the control plane by the interface ControlPlane, which package shard
// implements.
//
// Package shard makes the Config and the Settings of types, and defines the public form of errors,
// call descriptions and options. Package node does not import it.
package node
