// Command client calls a counter that a worker hosts.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/shardgen/shardgen/examples/counter/counter"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func main() {
	ctx := context.Background()
	conn, err := shard.Dial(ctx, shard.Config{Cluster: "demo", Transport: natstransport.New("nats://127.0.0.1:4222")})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	total, err := counter.NewCounterClient(conn).Ref("alice").Add(ctx, 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(total)
}
