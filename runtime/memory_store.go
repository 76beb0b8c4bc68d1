package shard

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/remember"
	"github.com/shardgen/shardgen/store"
)

// bookkeeper remembers one type's entities in a store. What it learns it posts to
// the memory's loop; the requests run beside it.
type bookkeeper struct {
	memory *memory
	host   *host
	store  store.Store
	book   *remember.Book
	slots  chan struct{} // bounds the requests under way
}

// storeRequests bounds a type's requests to its store that are under way at once.
const storeRequests = 16

func newBookkeeper(m *memory, h *host) *bookkeeper {
	r := h.settings.remember
	return &bookkeeper{
		memory: m, host: h, store: r.Store, slots: make(chan struct{}, storeRequests),
		book: remember.NewBook(remember.Kind{Max: r.MaxPerShard}),
	}
}

// prefix is where a shard's records are: "remembered/<cluster>/<kind>/<shard>/".
func (b *bookkeeper) prefix(id placement.ShardID) string {
	return "remembered/" + b.memory.node.cfg.Cluster + "/" + id.Kind + "/" + strconv.FormatUint(uint64(id.Shard), 10) + "/"
}

func (b *bookkeeper) step(in remember.Input) {
	out := b.book.Step(time.Now(), in)
	b.memory.due(out.WakeAt)
	for _, l := range out.Load {
		b.request(func(ctx context.Context) remember.Input { return b.load(ctx, l) })
	}
	for _, w := range out.Write {
		b.request(func(ctx context.Context) remember.Input {
			revision, err := b.store.Put(ctx, b.prefix(w.ShardID)+strconv.Itoa(w.Bucket), w.Value, w.Expect)
			return remember.Written{Load: w.Load, Bucket: w.Bucket, Revision: revision, Err: b.fault(w.ShardID, err)}
		})
	}
	for _, w := range out.Find {
		b.request(func(ctx context.Context) remember.Input {
			r, err := b.store.Get(ctx, b.prefix(w.ShardID)+strconv.Itoa(w.Bucket))
			if errors.Is(err, store.ErrNotFound) {
				r, err = store.Record{}, nil
			}
			return remember.Found{Load: w.Load, Bucket: w.Bucket, Revision: r.Revision, Err: b.fault(w.ShardID, err)}
		})
	}
	b.memory.finish(out.Done, out.Recalled, out.Start)
}

// request asks the store and brings the answer to the book.
func (b *bookkeeper) request(do func(context.Context) remember.Input) {
	pl := b.host.plane
	pl.wg.Go(func() {
		select {
		case b.slots <- struct{}{}:
		case <-pl.stop:
			return
		}
		if !pl.lease.MayAnswer() && pl.waitLease(pl.ctx) != nil {
			return // the shards may be another node's
		}
		ctx, cancel := context.WithTimeout(pl.ctx, storePatience)
		in := do(ctx)
		cancel()
		<-b.slots
		b.memory.loop.Post(func() { b.step(in) })
	})
}

func (b *bookkeeper) load(ctx context.Context, l remember.Load) remember.Loaded {
	prefix := b.prefix(l.ShardID)
	records, err := b.store.List(ctx, prefix)
	in := remember.Loaded{Load: l, Err: b.fault(l.ShardID, err)}
	for _, r := range records {
		if n, err := strconv.Atoi(strings.TrimPrefix(r.Key, prefix)); err == nil && n < remember.Buckets {
			in.Records = append(in.Records, remember.Record{Bucket: n, Value: r.Value, Revision: r.Revision})
		}
	}
	return in
}

// fault says what the store could not do, and counts it.
func (b *bookkeeper) fault(id placement.ShardID, err error) error {
	if err == nil || errors.Is(err, store.ErrConflict) {
		return err
	}
	if n, tell := b.host.plane.counters.addSeldom(rememberFailed); tell {
		b.host.plane.log.Error("the store of remembered entities fails; it is tried again every second", "shard", id.String(), "err", err, "count", n)
	}
	return fmt.Errorf("shard %v: %w (is RememberOptions.Store reachable?)", id, err)
}
