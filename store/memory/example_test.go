package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A write may be applied although its answer is lost: the writer reads the record to find out.
func ExampleServer() {
	ctx, server := context.Background(), memory.New()
	web, db := server.Client(), server.Client()
	web.Fault(func(memory.Op) memory.Fault { return memory.Fault{Loss: memory.LoseAnswer} })
	_, err := web.Put(ctx, "terms/coordinator", []byte("1"), store.None)
	fmt.Println(errors.Is(err, store.ErrUncertain))
	r, err := db.Get(ctx, "terms/coordinator")
	fmt.Printf("%s %v\n", r.Value, err)
	// Output:
	// true
	// 1 <nil>
}

// A client that is cut off cannot reach the server; other clients can.
func ExampleClient() {
	ctx, server := context.Background(), memory.New()
	c := server.Client()
	c.Cut(true)
	_, err := c.Get(ctx, "k")
	fmt.Println(err)
	c.Cut(false)
	_, err = c.Get(ctx, "k")
	fmt.Println(err)
	// Output:
	// store: get "k": store unavailable
	// store: get "k": not found
}
