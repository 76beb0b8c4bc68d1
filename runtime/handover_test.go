package shard_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/internal/wire/identity"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport"
)

// TestFrameGoesOnBehindATurnThatWaits: the turn of a frame's 5th envelope waits until the later
// envelopes have run. Another goroutine runs these; each runs once.
func TestFrameGoesOnBehindATurnThatWaits(t *testing.T) {
	t.Parallel()
	t.Run("tells", func(t *testing.T) { testFrameGoesOn(t, wire.TypeTell) })
	t.Run("calls", func(t *testing.T) { testFrameGoesOn(t, wire.TypeCall) })
}

func testFrameGoesOn(t *testing.T, typ wire.Type) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Lanes = 1 }
	a := c.start("a")
	accounts := fixture.NewAccountClient(a)
	settle(t, accounts, "bob", "log")
	peer := transport.Peer{Address: transport.Address{Name: "stranger", Incarnation: identity.Mark(identity.Client, 7)}, Client: true}
	link, err := c.broker.Transport().Open(testContext(t), transport.Options{
		Cluster: "test", Self: peer.Address, Client: true, Lanes: 1, OnState: func(transport.Channel, transport.State) {},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = link.Close() })

	const count, holds = 40, 5
	frame := wire.AppendFrameHeader(nil, &wire.FrameHeader{
		Version: wire.FrameVersion, From: peer, Seq: 1, Count: count, Window: 1 << 20, Session: sessionOf(t, link, peer, a.Peer()),
	})
	var want []string
	for i := range count {
		e := wire.Envelope{
			Type: typ, ID: uint64(i + 1), Kind: []byte("Account"), Entity: []byte("log"), Method: []byte("Note"),
			Payload: protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), strconv.Itoa(i)),
		}
		if i == holds {
			e.Entity, e.Method, e.Payload = []byte("bob"), []byte("Hold"), nil
		} else {
			want = append(want, strconv.Itoa(i))
		}
		e.Shard, e.Epoch = a.Placed("Account", string(e.Entity))
		frame = wire.AppendEnvelope(frame, &e)
	}
	require.NoError(t, link.Send(0, a.Peer(), 1, frame))
	require.Equal(t, "bob", receive(t, c.probe.Entered, "Hold begins"))
	var lines []string
	require.Eventually(t, func() bool {
		lines, err = accounts.Ref("log").Lines(testContext(t))
		return err == nil && len(lines) >= len(want)
	}, testPatience, testTick)
	require.Equal(t, want, lines)
	c.probe.Release <- struct{}{}
	require.NoError(t, receive(t, c.probe.Left, "Hold ends"))
}

// sessionOf asks a member for the number of its session with a client.
func sessionOf(t *testing.T, link transport.Link, client, member transport.Peer) uint64 {
	hello := wire.AppendFrameHeader(nil, &wire.FrameHeader{Version: wire.FrameVersion, From: client, Seq: 1, Hello: 1})
	require.NoError(t, link.Send(0, member, 0, hello))
	m, err := link.Receive(0)
	require.NoError(t, err)
	h, _, err := new(wire.FrameReader).Header(m.Payload)
	require.NoError(t, err)
	require.EqualValues(t, 1, h.Hello)
	require.NotZero(t, h.Session)
	return h.Session
}
