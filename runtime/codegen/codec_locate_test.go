package codegen

import (
	"fmt"
	"testing"
)

// TestMixHashSpreads: small results of a user's shard function are spread over all shards,
// whichever bits they differ in.
func TestMixHashSpreads(t *testing.T) {
	for _, f := range []struct {
		name string
		of   func(id uint64) uint64
		want int // shards of 128
	}{
		{"id % 100", func(id uint64) uint64 { return id % 100 }, 60},
		{"id", func(id uint64) uint64 { return id }, 128},
		{"id * 1000", func(id uint64) uint64 { return id * 1000 }, 128},
		{"low 32 bits", func(id uint64) uint64 { return uint64(uint32(id * 0x9e3779b9)) }, 128},
		{"first byte", func(id uint64) uint64 { return id << 56 }, 100},
	} {
		kind := Kind{Name: "Meter", Shards: 128, Hash: func(id string) (uint64, error) {
			var n uint64
			_, err := fmt.Sscan(id, &n)
			return MixHash(f.of(n)), err
		}}
		used := make(map[uint32]bool)
		for id := range 10_000 {
			shard, err := EntityShard(kind, fmt.Sprint(id))
			if err != nil {
				t.Fatal(err)
			}
			used[shard] = true
		}
		if len(used) < f.want {
			t.Errorf("%s: 10,000 ids use %d of 128 shards, want at least %d", f.name, len(used), f.want)
		}
	}
}
