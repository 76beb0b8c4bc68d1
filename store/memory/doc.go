// Package memory is a store inside the process, for tests: when the process ends, all data is lost.
// A [Server] holds the records, leases and shards. Each [Client] is one process's connection to the
// server, and can be given faults of its own. The server can be stopped and started from its disk,
// which may lack its last writes.
//
// The package uses package time, so in a testing/synctest bubble its time is virtual. It starts no
// goroutine, and a client without delays never waits. So a simulation can call it directly, with a
// clock of its own ([NewAt]).
package memory
