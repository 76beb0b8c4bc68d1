// Package shard keeps entities in memory, each in exactly one process of a cluster. The processes
// talk only through a broker.
//
// A developer annotates a struct with //shard:entity, shardgen writes a typed client and a host
// function for it, and this package does the rest: it forms the cluster, gives every entity a home,
// delivers calls there in order, moves entities when nodes come and go, and reports for each failed
// call whether it ran.
//
//	node := shard.New(shard.Config{Cluster: "shop", Transport: natstransport.New(url)})
//	shop.HostStock(node, func() *shop.Stock { return &shop.Stock{} })
//	err := node.Run(ctx)
//
// A process that is not a member calls through [Dial].
//
// # Layers
//
// This package is the public surface. Decisions are made by pure state machines in packages of
// their own: membership, coordinator, singleton, region, stream. Package internal/driver/node
// drives calls and turns with goroutines, timers and clocks. The control plane is one goroutine of
// this package (control_loop.go). docs/architecture.md follows a call and a move through these
// layers.
//
// # Concurrency
//
// All exported methods are safe for concurrent use. An entity's methods run one at a time, so an
// entity needs no locks of its own.
package shard
