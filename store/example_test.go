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

// The example raises a number that never falls, even over full restarts: read, decide, and let Put
// fail if the record has changed since.
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

// Two processes claim the same lease.
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

// A home claims a shard. The former home can then change nothing any more.
func ExampleShards() {
	ctx, server := context.Background(), memory.New()
	shard := store.Shard{Type: "Account", Number: 7}

	// The first home claims: it writes its head, then its claim in the log. Then it commits.
	old := server.Client().Shards()
	first, _ := old.SetHead(ctx, shard, store.Head{Value: []byte("epoch 1")})
	claim, _ := old.Append(ctx, shard, store.Any, []byte("claim of epoch 1"))
	last, err := old.Append(ctx, shard, claim, []byte("alice: 5"))
	fmt.Println(err)

	// Another home takes over by the same two writes, and reads the log.
	home := server.Client().Shards()
	head, _ := home.Head(ctx, shard)
	head.Revision, _ = home.SetHead(ctx, shard, store.Head{Revision: head.Revision, Since: head.Since, Value: []byte("epoch 2")})
	claim, _ = home.Append(ctx, shard, store.Any, []byte("claim of epoch 2"))
	log, _ := home.Read(ctx, shard, head.Since, claim)
	for _, a := range log {
		fmt.Printf("%s\n", a.Data)
	}

	// Writes of the old home no longer change the log or the records.
	_, err = old.Append(ctx, shard, last, []byte("alice: 6"))
	fmt.Println(errors.Is(err, store.ErrConflict))
	_, err = old.Put(ctx, shard, first, []store.Change{{ID: "alice", Value: []byte("5")}})
	fmt.Println(errors.Is(err, store.ErrConflict))

	// The new home writes records, and then a head by which the log before claim is not needed.
	home.Put(ctx, shard, head.Revision, []store.Change{{ID: "alice", Value: []byte("5")}})
	head.Since = claim
	head.Revision, _ = home.SetHead(ctx, shard, head)
	fmt.Println(home.Trim(ctx, shard, head))
	_, records, err := home.Get(ctx, shard, []string{"alice", "bob"}, head.Revision)
	fmt.Printf("%s %v %v\n", records[0].Value, records[1].Revision == store.None, err)
	// Output:
	// <nil>
	// claim of epoch 1
	// alice: 5
	// claim of epoch 2
	// true
	// true
	// <nil>
	// 5 true <nil>
}
