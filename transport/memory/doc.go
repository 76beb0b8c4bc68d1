// Package memory is a broker inside the process, for tests: links to it behave
// like links over NATS, and its faults can be commanded. Nothing in it depends
// on time or chance but what the seed decides, so a test that sends in one order
// sees one outcome.
//
// Messages are routed inside Send: when it returns they are in the receiver's
// queue, lost by a fault, or held by one. Nodes are named in faults without
// their incarnation, so a fault outlives a restart of the node.
package memory
