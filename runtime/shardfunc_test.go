package shard_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestBadShardFunctions: a call of a type with a failing shard function fails before it is sent.
// The error names the type, the id and the remedy.
func TestBadShardFunctions(t *testing.T) {
	answers := uint64(0)
	own := errors.New("odd id")
	for want, hash := range map[string]func(string) (uint64, error){
		"panicked for id bob: boom (it must accept every id)": func(string) (uint64, error) { panic("boom") },
		"has two results for id bob: 0x1 and 0x2 (it must depend on the id alone)": func(string) (uint64, error) {
			answers++
			return answers, nil
		},
		"refused id bob: odd id": func(string) (uint64, error) { return 0, own },
	} {
		n := shard.New(emptyCluster(t).config("a"))
		invoker := n.ShardInvoker(codegen.Kind{Name: "Odd", Package: "p", Shards: 4, HashName: "p.Hash", Hash: hash})
		ref := codegen.NewRef(invoker, "bob", nil)
		_, err := ref.Begin(testContext(t), "Do")
		require.ErrorIs(t, err, shard.ErrBadID)
		require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
		require.ErrorContains(t, err, "the shard function p.Hash of Odd "+want)
		require.NoError(t, n.Close())
	}
}
