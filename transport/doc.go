// Package transport defines the interface between shardgen and a message broker:
// addresses, channels with an order each, and a process's link for sending and receiving.
// Adapters are below it (transport/nats, transport/memory); each of them passes the suite
// in transport/conformance.
//
// A link promises little, so that every broker can keep it: a message arrives at most
// once, in order per channel and sender while no connection breaks, or not at all. The
// sessions of internal/driver/peers make that reliable.
package transport
