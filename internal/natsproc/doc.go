// Package natsproc runs a real nats-server as a process of its own, for tests
// and fault runs: it can be killed, paused and started again on its port. The
// program is built from the module cache, in the version of go.mod.
package natsproc
