package shardhost

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/transport"
)

// TestCallIsWhatItsEnvelopeSays checks the fields of a call that comes from its sender, and of a
// call that another process has forwarded.
func TestCallIsWhatItsEnvelopeSays(t *testing.T) {
	from, sender := transport.Peer{Address: node("b")}, transport.Peer{Address: node("s")}
	e := &wire.Envelope{
		Type: wire.TypeCall, ID: 7, Entity: []byte("x"), Method: []byte("M"), Payload: []byte("args"),
		Chain: wire.AppendLink(nil, "K", "y", 1), Epoch: 3, Timeout: 2500,
	}
	var c Call
	c.Fill(from, e, 1000)
	require.EqualValues(t, 7, c.ID)
	require.Equal(t, "x", c.Entity)
	require.Equal(t, from, c.Sender)
	require.True(t, c.Via.IsZero())
	require.EqualValues(t, 3, c.Epoch)
	require.Equal(t, len("args")+len("x")+len("M")+len(e.Chain), c.Size)
	require.Equal(t, int64(1000+2500*time.Microsecond), c.Deadline)
	require.False(t, c.Tell)
	require.True(t, c.Chain.HoldsEntity(shardID, "y"))

	e.Node, e.Type, e.Timeout, e.Chain = sender, wire.TypeTell, 0, nil
	c = Call{}
	c.Fill(from, e, 1000)
	require.Equal(t, sender, c.Sender)
	require.Equal(t, from.Address, c.Via)
	require.True(t, c.Tell)
	require.Zero(t, c.Deadline)
	require.Nil(t, c.Chain)
}

// TestDetach: after Detach, a waiting call keeps no memory of a much larger frame. Its fields stay
// the same.
func TestDetach(t *testing.T) {
	frame := bytes.Repeat([]byte("x"), 64<<10)
	e := &wire.Envelope{
		Type: wire.TypeCall, Entity: append(frame[:0:10], "entity"...), Method: append(frame[10:10:20], "Method"...),
		Payload: append(frame[20:20:40], "arguments"...), Chain: wire.AppendLink(nil, "K", "y", 1),
	}
	var c Call
	c.Fill(transport.Peer{Address: node("s")}, e, 0)
	c.Frame = uint32(len(frame))
	c.Detach()
	require.Zero(t, c.Frame)
	copy(frame, bytes.Repeat([]byte("!"), len(frame)))
	require.Equal(t, "entity", c.Entity)
	require.Equal(t, "Method", string(c.Method))
	require.Equal(t, "arguments", string(c.Args))
	require.True(t, c.Chain.HoldsShard(shardID))

	small := Call{Frame: smallFrame - 1}
	small.Detach()
	require.EqualValues(t, smallFrame-1, small.Frame, "a call that keeps little keeps it")
}

// TestChainHoldsThoseOfItsOwnKind: a chain holds an entity or a shard only if one link has the kind
// as well as the name or number.
func TestChainHoldsThoseOfItsOwnKind(t *testing.T) {
	links := wire.AppendLink(wire.AppendLink(nil, "K", "y", 1), "L", "x", 2)
	c := Chain(links)
	require.True(t, c.HoldsEntity(shardID, "y"))
	require.False(t, c.HoldsEntity(shardID, "x"), "an entity of another kind")
	require.False(t, c.HoldsEntity(shardID, "z"), "another entity of the kind")
	require.True(t, c.HoldsShard(shardID))
	other := shardID
	other.Shard = 2
	require.False(t, c.HoldsShard(other), "a shard of another kind")
	require.Equal(t, "K/y → L/x → ", c.String())
	require.False(t, Chain("\xff").HoldsEntity(shardID, "y"), "one that does not parse")
}
