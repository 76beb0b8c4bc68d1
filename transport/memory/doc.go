// Package memory is a broker inside the process, for tests. Its links behave like links over NATS,
// and the test sets its faults. Only [Broker.Delay] depends on time. Random choices depend only on
// the seed. So a test that sends in a fixed order always has the same outcome.
//
// Send itself routes a message. When Send returns, the message is in the receiver's queue, or a
// fault has lost it, or holds or delays it. Faults name nodes without their incarnations, so a
// fault outlives a restart of its node.
package memory
