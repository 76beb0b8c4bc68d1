package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/stream"
	memorystream "github.com/shardgen/shardgen/stream/memory"
	natsstream "github.com/shardgen/shardgen/stream/nats"
	"github.com/shardgen/shardgen/transport/memory"
)

// consumePaid is called at each node before Start.
func consumePaid(node *shard.Node, source stream.Source) error {
	wallets := bank.NewWalletClient(node)
	return shard.Consume(node, "paid", source, func(ctx context.Context, m shard.Message) error {
		return wallets.Tell(strings.TrimPrefix(m.Subject, "paid.")).Put(ctx, int64(len(m.Data)))
	})
}

// openPaid opens the source for use outside of tests.
func openPaid(ctx context.Context, url string) (stream.Source, error) {
	return natsstream.Open(ctx, url, natsstream.Config{Stream: "PAID"})
}

// openParts opens a source with four partitions, which different members can read.
func openParts(ctx context.Context, url string) (stream.Source, error) {
	return natsstream.Open(ctx, url, natsstream.Config{Stream: "PARTS", Subjects: []string{"part.0", "part.1", "part.2", "part.3"}})
}

var _, _ = openPaid, openParts

func ExampleConsume() {
	ctx := context.Background()
	source := memorystream.New(1) // openPaid outside of tests
	node := shard.New(shard.Config{
		Cluster: "example", Name: "worker", Logger: slog.New(slog.DiscardHandler),
		Transport: memory.NewBroker(memory.Options{}).Transport(), Store: memorystore.New().Client(),
	})
	err := errors.Join(
		bank.HostWallet(node, func() *bank.Wallet { return &bank.Wallet{} }),
		consumePaid(node, source),
	)
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	source.Publish(0, "paid.ann", []byte("12345"))
	source.Publish(0, "paid.ann", []byte("67"))
	for {
		total, err := bank.NewWalletClient(node).Ref("ann").Get(ctx)
		if total == 7 || err != nil {
			fmt.Println(total, err)
			return
		}
		<-time.After(time.Millisecond)
	}
	// Output: 7 <nil>
}
