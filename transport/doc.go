// Package transport says what shardgen needs of a message broker: addresses,
// channels with an order of their own, and a link over which one process sends
// and receives. Adapters live below it (transport/nats, transport/memory);
// transport/conformance is the suite that each of them passes.
//
// A link promises little, so that every broker can keep it: a message arrives
// at most once, in order per channel and sender while no connection breaks, or
// not at all. Reliability is made above, in runtime/call.
package transport
