// Package handoff runs the cores of the data plane together, in virtual time and
// from a seed: runtime/call's paths and routes, runtime/region's shards, over a
// broker that loses and delays, while shards move, moves are called off, and
// processes leave or are killed. It holds tests only.
//
// The processes here drive the cores as package shard does, without its
// goroutines and locks.
package handoff
