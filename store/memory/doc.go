// Package memory is a store inside the process, for tests: it forgets all when
// the process ends. A [Server] holds the records and leases; each [Client] is
// one process's way to it, and has faults of its own.
//
// Time is that of package time: in a testing/synctest bubble it is virtual.
package memory
