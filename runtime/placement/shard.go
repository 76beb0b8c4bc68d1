package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"

	"github.com/shardgen/shardgen/transport"
)

// DefaultShards is the number of shards of a volatile type whose directive sets none.
const DefaultShards = 256

// MaxShards bounds the shards of one type, and so the memory that a table entry from the network
// can make a process allocate.
const MaxShards = 1 << 16

// CheckShards returns an error unless n is a power of two from 1 to [MaxShards].
func CheckShards(n int) error {
	if n < 1 || n > MaxShards || n&(n-1) != 0 {
		return fmt.Errorf("check shards: %d is not a power of two from 1 to %d", n, MaxShards)
	}
	return nil
}

// ShardOf returns the shard number of a hash: a 1 followed by the first log2(shards) bits of the
// hash. So shard s can split into 2s and 2s+1. shards must be a power of two; n shards have the
// numbers n to 2n-1.
func ShardOf(hash uint64, shards uint32) uint32 {
	return shards | uint32(hash>>(64-(bits.Len32(shards)-1)))
}

// A ShardID identifies one shard of one type.
type ShardID struct {
	Kind  string
	Shard uint32 // the hash's prefix with a 1 before it
}

// Compare orders shards by type, then number.
func (s ShardID) Compare(o ShardID) int {
	if c := strings.Compare(s.Kind, o.Kind); c != 0 {
		return c
	}
	return cmp.Compare(s.Shard, o.Shard)
}

// String returns the type and the number: "Stock/257".
func (s ShardID) String() string { return fmt.Sprintf("%s/%d", s.Kind, s.Shard) }

func (s ShardID) check() error {
	if s.Kind == "" || s.Shard == 0 || shardsOf(s.Shard) > MaxShards {
		return fmt.Errorf("check shard %v: want a type and a number from 1 to %d", s, 2*MaxShards-1)
	}
	return nil
}

// shardsOf returns the number of shards of a type with this shard number.
func shardsOf(shard uint32) uint32 { return 1 << (bits.Len32(shard) - 1) }

// An Entry names the home of a shard. A zero Home means that the shard has none now; Epoch is then
// the last epoch assigned.
type Entry struct {
	ShardID
	Home  transport.Address
	Epoch Epoch
}

// String returns a text such as "Stock/257 → web-1#… at 3.1".
func (e Entry) String() string { return fmt.Sprintf("%v → %v at %v", e.ShardID, e.Home, e.Epoch) }
