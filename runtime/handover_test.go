package shard_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// TestFrameGoesOnBehindATurnThatWaits: the turn of a frame's 5th envelope waits until
// those behind it have run, which another goroutine goes on with; each runs once.
func TestFrameGoesOnBehindATurnThatWaits(t *testing.T) {
	for _, typ := range []wire.Type{wire.TypeTell, wire.TypeCall} {
		c := emptyCluster(t)
		c.tune = func(cfg *shard.Config) { cfg.Lanes = 1 }
		a := c.start("a")
		accounts := fixture.NewAccountClient(a)
		settle(t, accounts, "bob", "log")
		peer := transport.Peer{Address: transport.Address{Name: "stranger", Incarnation: 7}, Client: true}
		link, err := c.broker.Transport().Open(testContext(t), transport.Options{
			Cluster: "test", Self: peer.Address, Lanes: 1, OnState: func(transport.Channel, transport.State) {},
		})
		require.NoError(t, err)

		const count, holds = 40, 5
		frame := wire.AppendFrameHeader(nil, &wire.FrameHeader{
			Version: wire.FrameVersion, From: peer, Seq: 1, Count: count, Window: 1 << 20,
		})
		for i := range count {
			id, method := "log", "Note"
			var args []byte
			if i == holds {
				id, method = "bob", "Hold"
			} else {
				args = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strconv.Itoa(i))
			}
			s, epoch := a.Placed("Account", id)
			frame = wire.AppendEnvelope(frame, &wire.Envelope{
				Type: typ, ID: uint64(i + 1), Kind: []byte("Account"), Shard: s, Epoch: epoch,
				Entity: []byte(id), Method: []byte(method), Payload: args,
			})
		}
		require.NoError(t, link.Send(0, a.Peer(), 1, frame))
		require.Equal(t, "bob", receive(t, c.gate.Entered, "Hold begins"))
		var lines []string
		waitFor(t, func() bool {
			lines, err = accounts.Ref("log").Lines(testContext(t))
			return err == nil && len(lines) >= count-1
		})
		c.gate.Release <- struct{}{}
		require.NoError(t, receive(t, c.gate.Left, "Hold ends"))
		var want []string
		for i := range count {
			if i != holds {
				want = append(want, strconv.Itoa(i))
			}
		}
		require.Equal(t, want, lines)
		require.NoError(t, link.Close())
	}
}
