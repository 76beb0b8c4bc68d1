package remembering

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shardgen/shardgen/internal/remember"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// A recorder remembers one type's entities in a store. It posts answers to the memory's
// loop; the requests run on other goroutines.
type recorder struct {
	memory  *Memory
	kind    string
	store   store.Store
	locate  func(id string) (shard uint32, err error)
	want    layout // without its space
	machine *remember.StoreMachine
	slots   chan struct{} // bounds the requests under way

	placing sync.Mutex
	space   string // where the ids are; guarded by placing until it is set
	attempt int    // guarded by placing
}

// storeRequests bounds a type's concurrent requests to its store.
const storeRequests = 16

func newRecorder(m *Memory, kind string, s Settings) *recorder {
	return &recorder{
		memory: m, kind: kind, store: s.Store, locate: s.Locate, want: layout{Shards: s.Shards, Hash: s.HashName}, slots: make(chan struct{}, storeRequests),
		machine: remember.NewStoreMachine(remember.Kind{Max: s.MaxPerShard}),
	}
}

// base is the prefix of the keys of the type's records.
func (r *recorder) base() string {
	return "remembered/" + r.memory.process.Cluster() + "/" + r.kind + "/"
}

// prefix is the prefix of the keys of a shard's records.
func (r *recorder) prefix(id placement.ShardID) string {
	return r.base() + r.space + "/" + strconv.FormatUint(uint64(id.Shard), 10) + "/"
}

// recordKey is the key of a record below the prefix of a space.
func recordKey(space string, id placement.ShardID, bucket int) string {
	return space + strconv.FormatUint(uint64(id.Shard), 10) + "/" + strconv.Itoa(bucket)
}

func (r *recorder) step(in remember.Input) {
	out := r.machine.Step(time.Now(), in)
	r.memory.due(out.WakeAt)
	for _, l := range out.Load {
		r.request(func(ctx context.Context) remember.Input { return r.load(ctx, l) })
	}
	for _, w := range out.Write {
		r.request(func(ctx context.Context) remember.Input {
			revision, err := r.store.Put(ctx, recordKey(r.base()+r.space+"/", w.ShardID, w.Bucket), w.Value, w.Expect)
			return remember.Written{Load: w.Load, Bucket: w.Bucket, Revision: revision, Err: r.fault(w.ShardID, err)}
		})
	}
	for _, w := range out.Find {
		r.request(func(ctx context.Context) remember.Input {
			record, err := r.store.Get(ctx, recordKey(r.base()+r.space+"/", w.ShardID, w.Bucket))
			if errors.Is(err, store.ErrNotFound) {
				record, err = store.Record{}, nil
			}
			return remember.Found{Load: w.Load, Bucket: w.Bucket, Revision: record.Revision, Err: r.fault(w.ShardID, err)}
		})
	}
	r.memory.finish(out.Done, out.Recalled, out.Activate)
}

// request asks the store and brings the answer to the machine.
func (r *recorder) request(do func(context.Context) remember.Input) {
	p := r.memory.process
	p.Go(func() {
		if !r.place() {
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-p.Context().Done():
			return
		}
		if !p.MayAnswer() && p.WaitLease(p.Context()) != nil {
			return // the shards may be another node's
		}
		ctx, cancel := context.WithTimeout(p.Context(), storePatience)
		in := do(ctx)
		cancel()
		<-r.slots
		r.memory.loop.Post(func() { r.step(in) })
	})
}

func (r *recorder) load(ctx context.Context, l remember.Load) remember.Loaded {
	prefix := r.prefix(l.ShardID)
	records, err := r.store.List(ctx, prefix)
	in := remember.Loaded{Load: l, Err: r.fault(l.ShardID, err)}
	for _, record := range records {
		if n, err := strconv.Atoi(strings.TrimPrefix(record.Key, prefix)); err == nil && n < remember.Buckets {
			in.Records = append(in.Records, remember.Record{Bucket: n, Value: record.Value, Revision: record.Revision})
		}
	}
	return in
}

// fault returns the error for a failure of the store, and counts it.
func (r *recorder) fault(id placement.ShardID, err error) error {
	if err == nil || errors.Is(err, store.ErrConflict) {
		return err
	}
	if n, tell := r.memory.process.Count(StoreFailed); tell {
		r.memory.process.Log().Error("the store of remembered entities fails; it is tried again every second", "shard", id.String(), "err", err, "count", n)
	}
	return fmt.Errorf("shard %v: %w (is the store of remembered ids up?)", id, err)
}
