// Package memory is a broker inside the process, for tests: links to it behave like links
// over NATS, and its faults are commanded by the test. Nothing in it depends on
// time, except [Broker.Delay], and chance depends only on the seed, so a test that sends in one
// order sees one outcome.
//
// Messages are routed inside Send: when it returns they are in the receiver's queue, lost
// by a fault, or held or delayed by one. Faults name nodes without their incarnation, so a fault
// outlives a restart of the node.
package memory
