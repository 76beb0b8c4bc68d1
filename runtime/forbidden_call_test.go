package shard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestForbiddenCallsAreAnswered: a client's call that only members may make fails at once, with the
// missing right. The client's allowed calls go on.
func TestForbiddenCallsAreAnswered(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.dial("web"))
	many := make([]wire.Header, wire.MaxHeaders+1)
	for want, info := range map[string]wire.Info{
		"web is a client, and only members make calls for a caller of a gateway": {Gateway: "php"},
		"web is a client, and only members make calls for a tell in a log":       {Told: true},
		"bad headers: key": {Headers: []wire.Header{{Key: "UPPER", Value: "x"}}},
		"bad headers: there are more than 32 headers, or one": {Headers: many},
		"bad headers: keys and values have 8006 bytes":        {Headers: []wire.Header{{Key: "one", Value: strings.Repeat("x", 4000)}, {Key: "two", Value: strings.Repeat("x", 4000)}}},
		"bad headers: key two occurs twice":                   {Headers: []wire.Header{{Key: "two", Value: "1"}, {Key: "two", Value: "2"}}},
	} {
		for i := range info.Headers {
			if info.Headers[i].Key == "" {
				info.Headers[i] = wire.Header{Key: "k", Value: "v"}
			}
		}
		_, err := accounts.Ref("bob").Add(shard.Forge(testContext(t), info), 1)
		require.ErrorIs(t, err, shard.ErrForbidden)
		require.ErrorContains(t, err, want)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
		require.NoError(t, accounts.Tell("bob").Add(shard.Forge(testContext(t), info), 1), "it hears nothing of a tell")
	}
	got, err := accounts.Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.Zero(t, got)
	require.EqualValues(t, 12, c.nodes["a"].Counters()["forbidden message"])
}
