package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"strings"

	"github.com/shardgen/shardgen/transport"
)

// DefaultShards is the number of shards of a type that does not say.
const DefaultShards = 256

// MaxShards bounds the shards of one type, so that a table entry from the wire
// cannot ask for more memory than a sane cluster needs.
const MaxShards = 1 << 16

// CheckShards returns an error unless n is a power of two from 1 to [MaxShards].
func CheckShards(n int) error {
	if n < 1 || n > MaxShards || n&(n-1) != 0 {
		return fmt.Errorf("check shards: %d is not a power of two from 1 to %d", n, MaxShards)
	}
	return nil
}

// ShardOf returns the shard number of a hash: its first log2(shards) bits with a 1 before them, so
// that shard s can split into 2s and 2s+1. Shards must be a power of two; the numbers of n shards
// are n to 2n-1.
func ShardOf(hash uint64, shards uint32) uint32 {
	return shards | uint32(hash>>(64-(bits.Len32(shards)-1)))
}

// A ShardID names one shard of one type.
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

// String is the type and the number: "Stock/257".
func (s ShardID) String() string { return fmt.Sprintf("%s/%d", s.Kind, s.Shard) }

// check returns an error when the number cannot be a shard's.
func (s ShardID) check() error {
	if s.Kind == "" || s.Shard == 0 || shardsOf(s.Shard) > MaxShards {
		return fmt.Errorf("check shard %v: want a type and a number from 1 to %d", s, 2*MaxShards-1)
	}
	return nil
}

// shardsOf is how many shards a type has that numbers one of them so.
func shardsOf(shard uint32) uint32 { return 1 << (bits.Len32(shard) - 1) }

// An Entry has the home of a shard. A zero Home means that the shard has none now; the
// epoch is then the last one given out.
type Entry struct {
	ShardID
	Home  transport.Address
	Epoch Epoch
}

// String is "Stock/257 → web-1#… at 3.1".
func (e Entry) String() string { return fmt.Sprintf("%v → %v at %v", e.ShardID, e.Home, e.Epoch) }
