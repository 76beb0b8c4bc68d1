package counter_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// A node hosts counters, and a connection from outside the cluster calls one. Usually these are two
// processes, and the server is a third: then natstransport.New(url) is the transport, and
// natsstore.Open(ctx, url, …) the store.
func Example() {
	server, err := embedded.Start(embedded.Options{NoListen: true})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	config := func(name string) shard.Config {
		return shard.Config{Cluster: "example", Name: name, Transport: server.Transport(), Logger: slog.New(slog.DiscardHandler)}
	}
	ctx := context.Background()

	hosting := config("worker")
	hosting.Store = memory.New().Client()
	node := shard.New(hosting)
	if err := counter.HostCounter(node, func() *counter.Counter { return &counter.Counter{} }); err != nil {
		log.Fatal(err)
	}
	if err := node.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	conn, err := shard.Dial(ctx, config("client"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	alice := counter.NewCounterClient(conn).Ref("alice")
	for range 3 {
		total, err := alice.Add(ctx, 5)
		fmt.Println(total, err)
	}

	// Output:
	// 5 <nil>
	// 10 <nil>
	// 15 <nil>
}
