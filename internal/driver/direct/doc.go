// Package direct carries frames between two processes over direct lanes instead of the broker.
// Package agree decides which direct lanes exist. Lanes drives it: it listens, dials, and checks
// keys.
//
// A Conn is a TLS 1.3 connection with two pinned ends: each side knows the hash of the other's key
// from a message through the broker, on a subject bound to its sender. The keys are made when a
// process starts, so there are no certificates to manage.
//
// # Threads
//
// The goroutine that handles a lane's frames also reads them from the socket, because a separate
// reader with a queue would cost most of the time saved by a direct lane. Sending never blocks,
// because otherwise two such goroutines that send to each other could wait for each other with both
// sockets full. A Conn writes as much as the socket takes; a temporary goroutine writes the
// remaining bytes, whose number is bounded.
package direct
