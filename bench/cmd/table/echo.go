package main

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/bench/load"
	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// references returns one to each of n entities, all called once.
func references(c shard.Caller, n int) ([]fixture.AccountRef, error) {
	client := fixture.NewAccountClient(c)
	refs := make([]fixture.AccountRef, n)
	for i := range refs {
		refs[i] = client.Ref(id(i))
	}
	return refs, callEach(refs, nil)
}

// callEach calls each entity once, from many goroutines.
func callEach[E echoer](refs []E, payload []byte) error {
	next := make(chan int, len(refs))
	for i := range refs {
		next <- i
	}
	close(next)
	errs := make(chan error, callers)
	for range callers {
		go func() {
			for i := range next {
				if _, err := refs[i].Echo(context.Background(), payload); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var first error
	for range callers {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// echoer is an entity of any kind that answers with its argument.
type echoer interface {
	Echo(ctx context.Context, payload []byte) ([]byte, error)
}

// echo calls random entities from n callers. The context never ends, because calls to the limits
// have none. A call still has Config.CallTimeout.
func echo[E echoer](refs []E, n int, payload []byte) func(time.Duration) (measure, error) {
	return func(d time.Duration) (measure, error) {
		return load.Run(n, d, func(w, i int) error {
			_, err := refs[load.Pick(w, i, len(refs))].Echo(context.Background(), payload)
			return err
		})
	}
}
