package admin_test

import (
	"context"
	"fmt"
	"log/slog"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport/memory"
)

// An operator lists a cluster of one member, and makes the member leave.
func ExampleClient() {
	ctx := context.Background()
	broker := memory.NewBroker(memory.Options{})
	node := shard.New(shard.Config{
		Cluster: "shop", Name: "web-1", Roles: []string{"web"}, Transport: broker.Transport(),
		Logger: slog.New(slog.DiscardHandler),
	})
	defer node.Close()
	if err := node.Start(ctx); err != nil {
		fmt.Println(err)
		return
	}
	c, err := admin.Dial(ctx, admin.Options{Cluster: "shop", Transport: broker.Transport()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	view, err := c.Members(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range view.Members {
		fmt.Println(m.Name, m.Status, m.Roles)
	}
	_, err = view.Find("web-2")
	fmt.Println(err)
	gone, err := c.Leave(ctx, "web-1")
	fmt.Println(gone.Name, err)
	// Output:
	// web-1 up [web]
	// web-2: no such member: web-1 sees [web-1]
	// web-1 <nil>
}
