package storeops

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
)

// TestRepairedLists checks that the list of a shard lacks an entity whose damaged record was deleted,
// alone or by a repair of the shard.
func TestRepairedLists(t *testing.T) {
	const cluster = "c"
	shard := store.Shard{Type: "X", Number: 1}
	for name, repair := range map[string]func(context.Context, *tracked, *Writer) error{
		"record": func(ctx context.Context, s *tracked, _ *Writer) error { return DropRecord(ctx, s, cluster, shard, "a") },
		"shard": func(ctx context.Context, s *tracked, w *Writer) error {
			_, image, err := ReadAll(ctx, s, shard)
			if err != nil {
				return err
			}
			return w.ReplaceShard(ctx, shard.Number, image)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s := newTracked()
				writes := func(do func(*Writer) error) {
					t.Helper()
					w, err := NewWriter(ctx, s, shard.Type, durablehost.Type{Cluster: cluster, Shards: 1, Hash: "h"})
					if err != nil {
						t.Fatal(err)
					}
					if err := do(w); err != nil {
						t.Fatal(err)
					}
					if err := w.Close(ctx); err != nil {
						t.Fatal(err)
					}
				}
				for _, id := range []string{"a", "b"} {
					writes(func(w *Writer) error { return w.Write(ctx, Entity{Shard: shard.Number, ID: id, State: []byte("1")}) })
				}
				head, err := s.Shards().Head(ctx, shard)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Shards().Put(ctx, shard, head.Revision, []store.Change{{ID: durable.EntityKey("a"), Value: []byte("garbage")}}); err != nil {
					t.Fatal(err)
				}
				writes(func(w *Writer) error { return repair(ctx, s, w) })
				writes(func(w *Writer) error {
					tenure, err := w.shard(shard.Number).Tenure(ctx)
					if err != nil {
						return err
					}
					got := make(chan []string, 1)
					tenure.List(durable.Query{Of: durable.IDs, Limit: 10}, func(ids []string, _ bool, _ error) { got <- ids })
					if ids := <-got; !slices.Equal(ids, []string{"b"}) {
						t.Errorf("the repaired shard lists %q, want b alone", ids)
					}
					return nil
				})
			})
		})
	}
}
