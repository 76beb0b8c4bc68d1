package freeport_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/freeport"
)

// A server can listen at the address, and no connection is given its port.
func TestAddress(t *testing.T) {
	seen := make(map[string]bool)
	for range 20 {
		address, err := freeport.Address("127.0.0.1")
		require.NoError(t, err)
		resolved, err := net.ResolveTCPAddr("tcp", address)
		require.NoError(t, err)
		require.Less(t, resolved.Port, 32768, "a port that the system gives to connections")
		l, err := net.Listen("tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		require.False(t, seen[address])
		seen[address] = true
	}
	_, err := freeport.Address("192.0.2.1") // of no host: RFC 5737
	require.ErrorContains(t, err, "find a free port")
}
