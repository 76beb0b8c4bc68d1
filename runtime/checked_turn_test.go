package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture/giro"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestReadsAreHeldToIt: in tests, a method that is marked //shard:read and changes the state fails,
// whether it runs on its caller's goroutine, queues, or is called from another node; its change is
// dropped.
func TestReadsAreHeldToIt(t *testing.T) {
	for name, opts := range map[string][]shard.HostOption{"on the caller's goroutine": nil, "queued": {shard.Inline(false)}} {
		t.Run(name, func(t *testing.T) {
			v := newVaults(t)
			v.opts = opts
			v.start("a")
			v.start("b")
			for _, node := range v.nodes {
				_, err := ref(node, "x").Add(testContext(t), 5)
				require.NoError(t, err)
				total(t, node, "x", 5) // it is active, and its state is committed
				_, err = ref(node, "x").Peek(testContext(t), 1)
				require.ErrorContains(t, err, "Vault/x: Peek, a method marked //shard:read, has changed the state")
				require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
				total(t, node, "x", 5)
				_, err = ref(node, "x").Add(testContext(t), -5)
				require.NoError(t, err)
				_, err = ref(node, "x").Peek(testContext(t), 0)
				require.NoError(t, err, "it has changed nothing")
			}
		})
	}
}

// TestReadsRecordNothing: an event of a method that is marked //shard:read is dropped likewise.
func TestReadsRecordNothing(t *testing.T) {
	v := newVaults(t)
	_, c := startGiro(v, "a")
	for range 2 { // the account is passivated, then it is active
		_, err := c.Ref("x").Enter(testContext(t), 5, "")
		require.NoError(t, err)
		_, _, err = c.Ref("x").Statement(testContext(t))
		require.NoError(t, err)
		require.ErrorContains(t, c.Ref("x").Peek(testContext(t)), "a method marked //shard:read")
	}
	balance, entries, err := giro.NewAccountClient(v.nodes["a"]).Ref("x").Statement(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []int64{10, 2}, []int64{balance, entries})
}
