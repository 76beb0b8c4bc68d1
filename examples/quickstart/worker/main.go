// Command worker hosts counters until it is interrupted.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	const url = "nats://127.0.0.1:4222"
	store, err := natsstore.Open(ctx, url, natsstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	node := shard.New(shard.Config{Cluster: "demo", Transport: natstransport.New(url), Store: store})
	counter.HostCounter(node, func() *counter.Counter { return &counter.Counter{} }) // Run returns its error too
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
