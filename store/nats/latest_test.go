package natsstore_test

import (
	"context"
	"testing"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// TestLatest: Latest returns the revision of a shard's last record write, which may be a deletion.
// Writes of other shards do not count.
func TestLatest(t *testing.T) {
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	s, err := natsstore.Open(t.Context(), server.URL(), natsstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	shards := s.Shards().(interface {
		store.Shards
		Latest(ctx context.Context, s store.Shard) (store.Revision, error)
	})
	mine, other := store.Shard{Type: "X", Number: 4}, store.Shard{Type: "X", Number: 8} // shards of one stream
	if latest, err := shards.Latest(t.Context(), mine); latest != store.None || err != nil {
		t.Errorf("before the first record: %d, %v", latest, err)
	}
	var head, written store.Revision
	for _, shard := range []store.Shard{other, mine} {
		if head, err = shards.SetHead(t.Context(), shard, store.Head{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []store.Change{{ID: "a", Value: []byte("1")}, {ID: "b", Value: []byte("1")}, {ID: "a"}} {
			if written, err = shards.Put(t.Context(), shard, head, []store.Change{c}); err != nil {
				t.Fatal(err)
			}
			if latest, err := shards.Latest(t.Context(), shard); latest != written || err != nil {
				t.Errorf("%v: %d, %v, want %d", shard, latest, err, written)
			}
		}
	}
	if latest, err := shards.Latest(t.Context(), other); latest == store.None || latest >= head || err != nil {
		t.Errorf("the other shard: %d, %v, want less than %d", latest, err, head)
	}
}
