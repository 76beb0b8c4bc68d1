// Package freeport finds TCP addresses for servers that other code or another process starts a
// moment later, for tests and fault runs.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Address chooses ports below those given to connections (from 32768 on Linux, from 49152
// elsewhere): any program's connection may take such a port before its server listens or while its
// server is down.
const (
	first = 10000
	end   = 30000
)

const attempts = 100

// Address returns an address of a local host, "127.0.0.1:12345", where nobody listens now.
// Different calls return different addresses, but for one chance in 20,000.
func Address(host string) (string, error) {
	var taken error
	for range attempts {
		address := net.JoinHostPort(host, strconv.Itoa(first+rand.IntN(end-first)))
		l, err := net.Listen("tcp", address)
		if err == nil {
			return address, l.Close()
		}
		taken = err
	}
	return "", fmt.Errorf("find a free port: %d of %d to %d tried: %w", attempts, first, end-1, taken)
}
