package kafkastream_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	kafkastream "github.com/shardgen/shardgen/stream/kafka"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestConsume applies a topic to entities, each record once and in order per key, also after the first
// reader has ended without warning.
func TestConsume(t *testing.T) {
	const keys, each = 10, 100
	c := start(t)
	var records []*kgo.Record
	for n := range each {
		for k := range keys {
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(k % 2), Key: fmt.Append(nil, "v", k), Value: binary.AppendVarint(nil, int64(n))})
		}
	}
	publish(t, c, records[:len(records)/2]...)
	broker, store := memory.NewBroker(memory.Options{}), memorystore.New()
	read := func(name string) (*shard.Node, *bank.WalletClient) {
		n := shard.New(shard.Config{
			Cluster: "c", Name: name, Transport: broker.Transport(), Store: store.Client(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		t.Cleanup(func() { _ = n.Close() })
		wallets := bank.NewWalletClient(n)
		err := errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }),
			shard.Consume(n, "payments", open(t, c), func(ctx context.Context, m shard.Message) error {
				number, _ := binary.Varint(m.Data)
				return wallets.Tell(kafkastream.Key(m)).Note(ctx, number)
			}))
		if err == nil {
			err = n.Start(within(t))
		}
		if err != nil {
			t.Fatal(err)
		}
		return n, wallets
	}
	check := func(wallets *bank.WalletClient, each int) {
		t.Helper()
		for k := range keys {
			var notes []int64
			for ctx := within(t); len(notes) < each; {
				var err error
				if notes, err = wallets.Ref(fmt.Sprint("v", k)).Noted(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for i, n := range notes {
				if n != int64(i) || len(notes) > each {
					t.Fatalf("v%d has noted %v, want 0 to %d", k, notes, each-1)
				}
			}
		}
	}
	first, wallets := read("a")
	check(wallets, each/2)
	if err := first.Close(); err != nil { // its position may be old
		t.Fatal(err)
	}
	_, wallets = read("b")
	publish(t, c, records[len(records)/2:]...)
	check(wallets, each)
}
