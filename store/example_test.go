package store_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// A number that only grows, over full restarts too: read, decide, and let Put
// say whether the read still held.
func ExampleStore() {
	raise := func(ctx context.Context, s store.Store) (int, error) {
		for {
			r, err := s.Get(ctx, "terms/coordinator")
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
			term, _ := strconv.Atoi(string(r.Value)) // 0 where nothing is
			_, err = s.Put(ctx, "terms/coordinator", []byte(strconv.Itoa(term+1)), r.Revision)
			if !errors.Is(err, store.ErrConflict) {
				return term + 1, err
			}
		}
	}
	server := memory.New()
	fmt.Println(raise(context.Background(), server.Client()))
	fmt.Println(raise(context.Background(), server.Client()))
	// Output:
	// 1 <nil>
	// 2 <nil>
}

// Two processes that want the same lease.
func ExampleLease() {
	ctx, server := context.Background(), memory.New()
	a, b := server.Client(), server.Client()
	held, err := a.Acquire(ctx, store.Claim{Name: "leader", Holder: "a.1", TTL: time.Minute})
	fmt.Println(held.Token, err)
	_, err = b.Acquire(ctx, store.Claim{Name: "leader", Holder: "b.1", TTL: time.Minute})
	fmt.Println(errors.Is(err, store.ErrHeld))
	fmt.Println(a.Release(ctx, held))
	held, err = b.Acquire(ctx, store.Claim{Name: "leader", Holder: "b.1", TTL: time.Minute})
	fmt.Println(held.Token, err)
	// Output:
	// 1 <nil>
	// true
	// <nil>
	// 2 <nil>
}
