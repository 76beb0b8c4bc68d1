package codegen

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/shardgen/shardgen/runtime/placement"
)

// MaxIDBytes bounds an entity's id in its wire form, in bytes.
const MaxIDBytes = 1024

// CheckID returns an error unless id has 1 to [MaxIDBytes] bytes.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("check id: empty (want 1 to %d bytes)", MaxIDBytes)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("check id: %d bytes (want 1 to %d)", len(id), MaxIDBytes)
	}
	return nil
}

// Locate returns the hash and the shard number of an entity's id. It asks no cluster, because the
// result for a kind is the same in every process of every cluster.
func Locate(k Kind, id string) (hash uint64, shard uint32, err error) {
	if err := CheckID(id); err != nil {
		return 0, 0, fmt.Errorf("locate %s: %w", k.Name, err)
	}
	shards := k.Shards
	if shards == 0 {
		shards = placement.DefaultShards
	}
	if err := placement.CheckShards(shards); err != nil {
		return 0, 0, fmt.Errorf("locate %s: %w", k.Name, err)
	}
	if k.Hash == nil {
		hash = xxhash.Sum64String(id)
	} else if hash, err = k.Hash(id); err != nil {
		return 0, 0, fmt.Errorf("locate %s: %w", k.Name, err)
	}
	return hash, placement.ShardOf(hash, uint32(shards)), nil
}

// EntityShard returns the shard number that [Locate] returns.
func EntityShard(k Kind, id string) (uint32, error) {
	_, shard, err := Locate(k, id)
	return shard, err
}

// MixHash spreads the result of a user's shard function over all 64 bits. This is needed because a
// shard is a prefix of the hash: without mixing, all numbers below 2^57 would fall into the first
// of 128 shards. Equal results stay equal, so entities of types with the same function have the
// same shard number if their results are equal. The mixing is the step of SplitMix64 (Steele, Lea,
// Flood 2014). Members and stores know the mixed function by its name, "splitmix64(package.Func)".
func MixHash(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
