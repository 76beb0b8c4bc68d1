package node

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/runtime/placement"
)

// TestRouteOfHash: calls with a hash take the route of the shard that placement.ShardOf returns,
// for every number of shards.
func TestRouteOfHash(t *testing.T) {
	for shards := uint32(1); shards <= placement.MaxShards; shards *= 2 {
		k := newKind(&Driver{}, codegen.Kind{Name: "Stock", Shards: int(shards)})
		require.NoError(t, k.Err)
		hashes := []uint64{0, 1, math.MaxUint64 >> 1, 1 << 63, math.MaxUint64}
		for range 100 {
			hashes = append(hashes, rand.Uint64())
		}
		for _, h := range hashes {
			require.Equal(t, placement.ShardOf(h, shards), k.routeOf(h).shard, "hash %#x of %d shards", h, shards)
		}
	}
}
