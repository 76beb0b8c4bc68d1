package shard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestOneNameOfTwoPackages: a client of a type whose name another package's type has
// taken calls nothing.
func TestOneNameOfTwoPackages(t *testing.T) {
	c := newCluster(t, "a")
	invoker := c.nodes["a"].ShardInvoker(codegen.Kind{Name: accountKind, Package: "example.com/other"})
	_, err := codegen.NewRef(invoker, "bob", nil).Begin(testContext(t), "Add")
	require.ErrorIs(t, err, shard.ErrMismatch)
	require.ErrorContains(t, err, "example.com/other (set name= in one's directive)")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
}
