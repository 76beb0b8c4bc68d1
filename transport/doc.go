// Package transport defines the interface between shardgen and a message broker: addresses, ordered
// channels, and the link by which a process sends and receives. Adapters for brokers are in the
// folders below (transport/nats, transport/memory); each passes the suite in transport/conformance.
//
// A link makes only promises that every broker can keep: a message arrives at most once, and
// messages of one sender on one channel keep their order while no connection breaks. The sessions
// of internal/driver/peers make delivery reliable.
package transport
