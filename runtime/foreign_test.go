package shard_test

import (
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/message"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestForeignControl sends messages as from a node of another cluster, of an earlier start or of a
// later release. Each is counted under its reason, and changes nothing.
func TestForeignControl(t *testing.T) {
	c := newCluster(t, "a")
	a := c.nodes["a"]
	stranger := transport.Peer{Address: transport.Address{Name: "stranger", Incarnation: 7}}
	link, err := c.broker.Transport().Open(testContext(t), transport.Options{
		Cluster: "test", Self: stranger.Address, Lanes: 4, OnState: func(transport.Channel, transport.State) {},
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, link.Close()) }()

	seal := func(cluster string, topic wire.ControlTopic, body []byte) []byte {
		return wire.SealControl(cluster, stranger, topic, body)
	}
	const topic = wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP
	encoded := func(m membership.Message) []byte {
		b, err := membership.Encode(m)
		require.NoError(t, err)
		return b
	}
	founder := transport.Address{Name: "z", Incarnation: 99}
	self := transport.Address{Name: "a", Incarnation: a.Peer().Incarnation}
	state := &gossip.State{
		Founder: founder,
		Members: []membership.Member{{Address: self, Status: membership.Joining}},
		Version: gossip.VectorClock{{Node: self, Count: 1}},
		Seen:    gossip.SeenSet{1},
	}
	old := self
	old.Incarnation++
	laterKind := protowire.AppendTag([]byte{8, 1}, 999, protowire.BytesType) // format 1, and a body unknown here
	laterKind = protowire.AppendString(laterKind, "later")
	whole := encoded(message.Gossip{Target: uint32(self.Incarnation), State: state})

	for _, test := range []struct {
		name, counter string
		payload       []byte
	}{
		{"of another cluster's name", "foreign frame", seal("other", topic, encoded(message.Echo{Seq: 1}))},
		{"a later topic", "newer message", seal("test", 77, nil)},
		{"a later kind", "newer message", seal("test", topic, laterKind)},
		{"cut off", "foreign frame", seal("test", topic, whole[:len(whole)-3])},
		{"another founder's state", "membership from another cluster", seal("test", topic, whole)},
		{"for an old incarnation", "membership for another incarnation", seal("test", topic, encoded(message.Heartbeat{Target: uint32(old.Incarnation)}))},
	} {
		before := a.Counters()[test.counter]
		require.NoError(t, link.Send(transport.Control, a.Peer(), 0, test.payload))
		require.Eventually(t, func() bool { return a.Counters()[test.counter] == before+1 }, testPatience, testTick, test.name)
	}
	require.Len(t, a.Cluster().Members, 1)
	require.NoError(t, a.Err())
}
