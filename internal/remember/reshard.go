package remember

import (
	"cmp"
	"slices"

	"github.com/shardgen/shardgen/runtime/placement"
)

// A Stored is one record of a shard's ids in a store.
type Stored struct {
	placement.ShardID
	Bucket int
	Value  []byte
}

// Reshard returns the records of a type in which each id of the given ones is under the shard that
// locate names, once, in the order of shards and buckets, and the ids that have no shard.
func Reshard(records []Stored, locate func(id string) (shard uint32, err error)) (moved []Stored, ids int, homeless []string, err error) {
	type place struct {
		placement.ShardID
		bucket int
	}
	sets := map[place]map[string]struct{}{}
	for _, r := range records {
		stored, err := decodeBucket(r.ShardID, r.Value)
		if err != nil {
			return nil, 0, nil, err
		}
		for _, id := range stored {
			shard, err := locate(id)
			if err != nil {
				homeless = append(homeless, id)
				continue
			}
			p := place{placement.ShardID{Kind: r.Kind, Shard: shard}, bucketOf(id)}
			if sets[p] == nil {
				sets[p] = map[string]struct{}{}
			}
			sets[p][id] = struct{}{}
		}
	}
	for p, set := range sets { //arch:order-free sorted below
		value, err := encodeBucket(p.ShardID, sortedIDs(set))
		if err != nil {
			return nil, 0, nil, err
		}
		moved, ids = append(moved, Stored{p.ShardID, p.bucket, value}), ids+len(set)
	}
	slices.SortFunc(moved, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Bucket, b.Bucket))
	})
	return moved, ids, homeless, nil
}
