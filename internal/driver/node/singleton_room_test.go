package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// asked records the types for which a home was requested.
type asked struct {
	ControlPlane
	kinds []string
}

func (a *asked) Ask(kind string) { a.kinds = append(a.kinds, kind) }

// TestRefusedCallLooksForTheInstance: a call of a singleton for which there is no room to wait
// still makes the process look for the instance, so that the next call need not wait.
func TestRefusedCallLooksForTheInstance(t *testing.T) {
	ctl := &asked{}
	drv := NewDriver(Config{Lanes: 1, BufferBytes: 8}, transport.Peer{Address: transport.Address{Name: "a"}}, ctl)
	r := drv.Kind(codegen.Kind{Name: "Leader", Package: "p", Shards: 1, Singleton: true}).Route(1)
	require.ErrorIs(t, r.send(&wire.Envelope{Type: wire.TypeTell, Shard: 1}), ErrBufferFull)
	require.Equal(t, []string{"Leader"}, ctl.kinds)
	require.ErrorIs(t, r.send(&wire.Envelope{Type: wire.TypeCall, ID: 1, Shard: 1, Payload: make([]byte, 9)}), ErrOverloaded)
	require.Equal(t, []string{"Leader", "Leader"}, ctl.kinds)
}
