package node

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/shardhost"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// TestWaitingCallLeavesItsFrame: a small waiting call does not keep the large frame in which it
// came in memory. A call that is most of its frame is not copied.
func TestWaitingCallLeavesItsFrame(t *testing.T) {
	for name, tt := range map[string]struct {
		frame uint32
		own   bool
	}{"large frame": {64 << 10, true}, "its own frame": {100, false}} {
		t.Run(name, func(t *testing.T) {
			frame := []byte("bob Add arguments chain")
			e := wire.Envelope{Type: wire.TypeCall, Entity: frame[0:3], Method: frame[4:7], Payload: frame[8:17], Chain: frame[18:23]}
			drv := NewDriver(testConfig(), transport.Peer{}, nil)
			c := newInCall(drv, transport.Peer{}, &e, 0, drv.Lease.Base())
			c.Frame = tt.frame
			c.Detach()
			copy(frame, bytes.Repeat([]byte("x"), len(frame)))
			got := []string{c.Entity, string(c.Method), string(c.Args), string(c.Links), string(c.Chain.(shardhost.Chain))}
			want := []string{"bob", "Add", "arguments", "chain", "chain"}
			if !tt.own {
				want = []string{"xxx", "xxx", "xxxxxxxxx", "xxxxx", "xxxxx"}
			}
			require.Equal(t, want, got)
		})
	}
}
