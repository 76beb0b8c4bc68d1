package shard

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// TestCallOutlivesItsEnvelope: a turn that lost its lane keeps nothing of the lane's, which
// parses every envelope into the same memory.
func TestCallOutlivesItsEnvelope(t *testing.T) {
	const n = 10
	var frame []byte
	for i := range n {
		frame = wire.AppendEnvelope(frame, &wire.Envelope{
			Type: wire.TypeTell, Kind: []byte("Kind"), Entity: []byte("entity-" + strconv.Itoa(i)),
			Method: []byte("Method"), Payload: []byte(strconv.Itoa(i)),
		})
	}
	l := &lane{driver: newDriver(Config{}, transport.Peer{}, nil)}
	var calls []*inCall
	for range n {
		rest, ok, err := wire.NextEnvelope(frame, &l.next)
		require.NoError(t, err)
		require.True(t, ok)
		frame = rest
		c := new(inCall)
		c.fill(l.driver, transport.Peer{}, &l.next, 0, time.Time{})
		calls = append(calls, c)
	}
	l.next = wire.Envelope{}
	for i, c := range calls {
		require.Equal(t, fmt.Sprint("entity-", i, " ", i), c.Entity+" "+string(c.Args))
	}
}
