package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// exampleNode starts a node that hosts accounts, alone in its cluster. Users take
// natstransport.New(url) for the transport.
func exampleNode(ctx context.Context) *shard.Node {
	node := shard.New(shard.Config{
		Cluster: "example", Name: "worker", Logger: slog.New(slog.DiscardHandler),
		Transport: memory.NewBroker(memory.Options{}).Transport(),
	})
	if err := fixture.HostAccount(node, func() *fixture.Account { return &fixture.Account{} }, shard.IdleAfter(0)); err != nil {
		log.Fatal(err)
	}
	if err := node.Start(ctx); err != nil {
		log.Fatal(err)
	}
	return node
}

func ExampleNode() {
	ctx := context.Background()
	node := exampleNode(ctx)
	alice := fixture.NewAccountClient(node).Ref("alice")
	for range 2 {
		balance, err := alice.Add(ctx, 5)
		fmt.Println(balance, err)
	}
	fmt.Println(node.Shutdown(ctx), node.Err())
	// Output:
	// 5 <nil>
	// 10 <nil>
	// <nil> <nil>
}

func ExampleNode_Events() {
	ctx := context.Background()
	node := exampleNode(ctx)
	defer node.Close()
	for e := range node.Events(ctx) {
		for _, m := range e.View.Members {
			fmt.Println(m.Name, m.Status)
		}
		break // the first is a view; changes follow
	}
	// Output: worker up
}

func ExampleOutcomeOf() {
	ctx := context.Background()
	node := exampleNode(ctx)
	defer node.Close()
	accounts := fixture.NewAccountClient(node)

	err := accounts.Ref("alice").Fail(ctx) // the method itself returns an error
	var own *shard.EntityError
	fmt.Println(errors.As(err, &own), shard.OutcomeOf(err))

	_, err = accounts.Ref("").Get(ctx) // no entity has this id
	fmt.Println(errors.Is(err, shard.ErrBadID), shard.OutcomeOf(err))
	// Output:
	// true executed
	// true not executed
}

func ExampleAfter() {
	ctx := context.Background()
	node := exampleNode(ctx)
	defer node.Close()
	accounts := fixture.NewAccountClient(node)
	for _, id := range []string{"fr-1", "de-7", "de-10", "de-1"} {
		if _, err := accounts.Ref(id).Add(ctx, 5); err != nil {
			log.Fatal(err)
		}
	}

	last := "" // of the page before
	for id, err := range accounts.List(ctx, shard.Prefix("de-"), shard.After(last)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id)
		if last = id; last == "de-10" {
			break
		}
	}
	for id, err := range accounts.List(ctx, shard.Prefix("de-"), shard.After(last)) {
		fmt.Println("then", id, err)
	}
	// Output:
	// de-1
	// de-10
	// then de-7 <nil>
}
