// Package memory is a store inside the process, for tests: it forgets all when
// the process ends. A [Server] holds the records, leases and shards; each [Client]
// is one process's way to it, and has faults of its own. The server can be stopped
// and started from its disk, where its last writes may be missing.
//
// Time is that of package time: in a testing/synctest bubble it is virtual. The
// package has no goroutine, and a client without delays never waits: so a
// simulation calls it as a plain value, with a clock of its own ([NewAt]).
package memory
