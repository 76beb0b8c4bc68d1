package shard_test

import (
	"testing"

	"github.com/shardgen/shardgen/internal/core/membership/message"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestRemovedWhileUp: a node that the others believe to have left ends with an error that says so.
// It does not go on as a node that serves nothing.
func TestRemovedWhileUp(t *testing.T) {
	c := emptyCluster(t)
	journals := c.keepJournals()
	n := c.start("a")
	body, err := membership.Encode(message.Removal{Target: uint32(n.Peer().Incarnation), Left: true})
	require.NoError(t, err)
	c.ghost(transport.Address{Name: "z", Incarnation: 5}).say(n.Peer(), wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, body)
	receive(t, n.Done(), "the node ends")
	require.ErrorIs(t, n.Err(), shard.ErrDowned)
	require.ErrorContains(t, n.Err(), "z says that this node left, but it did not")
	require.Len(t, journals("a").with("node ends"), 1)
}
