package main

import "time"

// storeOptions are the values of flags and arguments of shardctl store.
type storeOptions struct {
	connection
	store                 string
	timeout               time.Duration
	json                  bool
	kind, id              string
	out, from             string
	drop, replace, states bool
	force                 bool
	shard                 int
	replicas, partitions  int
	most                  int // entities that list prints
	remembered            bool
	leases, terms         bool
	follower              string
}
