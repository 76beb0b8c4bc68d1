package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/ops/storeops"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

// open returns another connection to the store.
func (c *walletCluster) open() *natsstore.Store {
	c.t.Helper()
	s, err := natsstore.Open(c.t.Context(), c.server.URL(), natsstore.Config{
		Name: "bank", Partitions: 1, ConnectOptions: []nats.Option{nats.UserInfo("store", "x")},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(s.Close)
	return s
}

// shards calls f for each shard that has a head in the store.
func (c *walletCluster) shards(s *natsstore.Store, f func(shard store.Shard, head store.Head) error) {
	c.t.Helper()
	for n := 64; n < 128; n++ {
		shard := store.Shard{Type: "Wallet", Number: n}
		head, err := s.Shards().Head(c.t.Context(), shard)
		if err == nil && head.Revision != store.None {
			err = f(shard, head)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// without stops all nodes, runs f and starts nodes again.
func (c *walletCluster) without(f func()) {
	c.t.Helper()
	for _, n := range c.nodes {
		_ = n.Close()
	}
	f()
	c.startNodes()
}

// badStoreAppend puts bytes that are not a valid append into the logs.
func badStoreAppend(t *testing.T) {
	c := startWallets(t, t.TempDir(), "")
	c.serves()
	s := c.open()
	c.shards(s, func(shard store.Shard, _ store.Head) error {
		_, err := s.Shards().Append(t.Context(), shard, store.Any, []byte("garbage"))
		return err
	})
	c.wantRefusal("shard Wallet/", "log at ", "corrupt", "shardctl store repair")
	c.without(func() {
		kind, err := storeops.TypeOf(t.Context(), s, "Wallet")
		if err != nil {
			t.Fatal(err)
		}
		w, err := storeops.NewWriter(t.Context(), s, "Wallet", kind)
		if err != nil {
			t.Fatal(err)
		}
		c.shards(s, func(shard store.Shard, _ store.Head) error {
			_, image, err := storeops.ReadAll(t.Context(), s, shard)
			if err != nil {
				return err
			}
			return w.ReplaceShard(t.Context(), shard.Number, image)
		})
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	c.serves()
	c.check()
}

// badStoreNewer puts into the store a record such as a later release writes.
func badStoreNewer(t *testing.T) {
	const id = "later"
	record, err := proto.Marshal(&wire.DurableRecord{Format: 2, Entity: []byte(id), Version: 3, State: []byte("state")})
	if err != nil {
		t.Fatal(err)
	}
	sum := crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli))
	record = binary.LittleEndian.AppendUint32(append(record, 15<<3|5), sum)
	c := startWallets(t, t.TempDir(), "")
	c.serves()
	s := c.open()
	put := func(value []byte) {
		c.without(func() {
			c.shards(s, func(shard store.Shard, head store.Head) error {
				_, err := s.Shards().Put(t.Context(), shard, head.Revision, []store.Change{{ID: durable.EntityKey(id), Value: value}})
				return err
			})
		})
	}
	put(record)
	err = errors.New("nothing was called")
	for deadline := time.Now().Add(serviceAgain); time.Now().Before(deadline); {
		if err = c.add(id, 5*time.Second); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	for _, want := range []string{"Wallet/" + id, "format 2, this program reads up to 1", "newer"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to have %q", err, want)
		}
	}
	c.serves() // the other wallets
	put(nil)
	if err := c.add(id, serviceAgain); err != nil {
		t.Errorf("when the record is gone: %v", err)
	}
	c.check()
}
