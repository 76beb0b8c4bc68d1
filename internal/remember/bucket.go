package remember

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
)

// encodeBucket encodes some of a shard's ids as a record of a store.
func encodeBucket(id placement.ShardID, ids []string) ([]byte, error) {
	w := &wire.RememberSet{Kind: id.Kind, Shard: id.Shard}
	for _, e := range ids {
		w.Ids = append(w.Ids, []byte(e))
	}
	return proto.Marshal(w)
}

// decodeBucket is the opposite of encodeBucket for that shard.
func decodeBucket(id placement.ShardID, b []byte) ([]string, error) {
	var w wire.RememberSet
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("read remembered ids of %v: %w (the record is not shardgen's)", id, err)
	}
	if w.GetKind() != id.Kind || w.GetShard() != id.Shard {
		return nil, fmt.Errorf("read remembered ids of %v: the record is of %.20q, shard %d", id, w.GetKind(), w.GetShard())
	}
	ids := make([]string, 0, len(w.GetIds()))
	for _, e := range w.GetIds() {
		if len(e) == 0 || len(e) > MaxIDBytes {
			return nil, fmt.Errorf("read remembered ids of %v: an id of %d bytes", id, len(e))
		}
		ids = append(ids, string(e))
	}
	return ids, nil
}
