package storeops

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// TestExpiryByTheStoresClock: entities that an operator writes and reads expire by the store's
// clock, here an hour behind the operator's machine.
func TestExpiryByTheStoresClock(t *testing.T) {
	server := memory.New()
	server.SetAhead(-time.Hour)
	s, shard := &tracked{Client: server.Client(), last: make(map[store.Shard]store.Position)}, store.Shard{Type: "X", Number: 1}
	w, err := NewWriter(t.Context(), s, "X", durablehost.Type{Cluster: "c", Shards: 1, Hash: "h"})
	if err != nil {
		t.Fatal(err)
	}
	for id, left := range map[string]time.Duration{"there": time.Minute, "gone": -time.Minute} {
		expires := time.Now().Add(left - time.Hour).UnixMilli()
		if err := w.Write(t.Context(), Entity{Shard: 1, ID: id, State: []byte("1"), Expires: expires}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		snap, image, err := ReadAll(t.Context(), s, shard)
		if err != nil || len(snap.Entities) != 1 || snap.Entities[0].ID != "there" {
			t.Fatalf("%s: got %+v, %v; want one entity", what, snap.Entities, err)
		}
		there := false
		for _, r := range image.Records {
			there = there || r.ID == durable.EntityKey("there")
		}
		if !there {
			t.Errorf("%s: the entity is not in the image", what)
		}
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("in the log")
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("in records")
}
