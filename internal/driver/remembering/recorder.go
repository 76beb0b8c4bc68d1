package remembering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/remember"
	"github.com/shardgen/shardgen/internal/util/bounded"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// A recorder keeps the ids of one type in a store. Requests to the store run on their own
// goroutines, and their answers are handled on the Memory's loop.
type recorder struct {
	memory  *Memory
	kind    string
	store   store.Store
	locate  func(id string) (shard uint32, err error)
	want    layout // the layout of this program, without Space
	machine *remember.StoreMachine
	slots   chan struct{} // bounds the concurrent requests

	placing chan struct{} // a lock, held while place waits for the store; a channel, because in virtual time a mutex would hang
	space   string        // the layout's Space; guarded by placing until it is set
	attempt int           // guarded by placing
}

const storeRequests = 16

func newRecorder(m *Memory, kind string, s Settings) *recorder {
	return &recorder{
		memory: m, kind: kind, store: s.Store, locate: s.Locate, want: layout{Shards: s.Shards, Hash: s.HashName}, slots: make(chan struct{}, storeRequests), placing: make(chan struct{}, 1),
		machine: remember.NewStoreMachine(remember.Kind{Max: s.MaxPerShard}),
	}
}

func (r *recorder) base() string {
	return "remembered/" + r.memory.process.Cluster() + "/" + r.kind + "/"
}

func (r *recorder) prefix(id placement.ShardID) string {
	return r.base() + r.space + "/" + strconv.FormatUint(uint64(id.Shard), 10) + "/"
}

// recordKey returns the key of a record below the prefix space; see [layout].
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
			return // another node may have the shards
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

// fault counts a failure of the store, and adds the shard and the remedy to err. A conflict is no
// failure.
func (r *recorder) fault(id placement.ShardID, err error) error {
	if err == nil || errors.Is(err, store.ErrConflict) {
		return err
	}
	if n, tell := r.memory.process.Count(StoreFailed); tell {
		r.memory.process.Log().Error("the store of remembered entities fails; it is tried again every second", "shard", id.String(), "err", err, "count", n)
	}
	return fmt.Errorf("shard %v: %w (is the store of remembered ids up?)", id, err)
}

// A layout determines the keys of a type's ids in the store. The layout itself is stored at
// "remembered/<cluster>/<kind>/layout", and the ids below
// "remembered/<cluster>/<kind>/<space>/<shard>/<bucket>".
//
// If a program has another number of shards or another shard function, it can start only when no
// member hosts the type with the former layout. The program then moves the ids. Each process that
// needs the ids copies them to a space of its own, and then replaces the stored layout by
// compare-and-set. Only the first process succeeds. Therefore, even after a failure, each id counts
// once: under the former layout or under the new one.
type layout struct {
	Shards uint32 `json:"shards"`
	Hash   string `json:"hash"` // the name of the shard function
	Space  string `json:"space"`
}

const (
	layoutName   = "layout"
	movePatience = time.Minute
	placeRetry   = time.Second
)

// place waits until the ids are under this program's layout. It reports false if the process stops.
func (r *recorder) place() bool {
	p := r.memory.process
	select {
	case r.placing <- struct{}{}:
	case <-p.Context().Done():
		return false
	}
	defer func() { <-r.placing }()
	for r.space == "" {
		if !p.MayAnswer() && p.WaitLease(p.Context()) != nil {
			return false // another node may have the shards
		}
		ctx, cancel := context.WithTimeout(p.Context(), movePatience)
		space, err := r.settle(ctx)
		cancel()
		if err == nil {
			r.space = space
			return true
		}
		if n, tell := p.Count(StoreFailed); tell {
			p.Log().Error("the remembered entities of a type cannot be found in the store; it is tried again every second", "kind", r.kind, "err", err, "count", n)
		}
		select {
		case <-time.After(placeRetry):
		case <-p.Context().Done():
			return false
		}
	}
	return true
}

func (r *recorder) settle(ctx context.Context) (space string, err error) {
	key := r.base() + layoutName
	for tried := ""; ; {
		record, err := r.store.Get(ctx, key)
		absent := errors.Is(err, store.ErrNotFound)
		if err != nil && !absent {
			return "", err
		}
		var have layout
		if !absent {
			if err := json.Unmarshal(record.Value, &have); err != nil {
				return "", fmt.Errorf("record %q of the store is damaged: %w (stop all members, and run shardctl store clear %s -remembered)", key, err, r.memory.process.Cluster())
			}
		}
		if have.Shards == r.want.Shards && have.Hash == r.want.Hash {
			if tried != "" && have.Space != tried { // another process has replaced the layout first
				r.drop(ctx, func(space string) bool { return space == tried })
			}
			return have.Space, nil
		}
		r.attempt++
		want := r.want
		want.Space = fmt.Sprintf("%016x-%d", r.memory.process.Self().Incarnation, r.attempt)
		ids, err := r.move(ctx, have, want)
		if err != nil {
			return "", err
		}
		value, err := json.Marshal(want)
		if err != nil {
			return "", err
		}
		expect := record.Revision
		if absent {
			expect = store.None
		}
		_, err = r.store.Put(ctx, key, value, expect)
		switch {
		case errors.Is(err, store.ErrConflict):
			tried = want.Space
		case err != nil:
			return "", err
		case absent:
			return want.Space, nil
		default:
			r.memory.process.Log().Info("remembered entities moved to the shards of another layout", "kind", r.kind, "entities", ids,
				"shards", want.Shards, "were", have.Shards, "hash", want.Hash, "was", have.Hash)
			// Records of all other processes are deleted too: a process that still moves ids can no
			// longer replace the layout.
			r.drop(ctx, func(space string) bool { return space != want.Space && space != layoutName })
			return want.Space, nil
		}
	}
}

func (r *recorder) move(ctx context.Context, from, to layout) (ids int, err error) {
	if from.Space == "" {
		return 0, nil
	}
	prefix := r.base() + from.Space + "/"
	records, err := r.store.List(ctx, prefix)
	if err != nil {
		return 0, err
	}
	stored := make([]remember.Stored, 0, len(records))
	for _, record := range records {
		shard, bucket, _ := strings.Cut(strings.TrimPrefix(record.Key, prefix), "/")
		s, err := strconv.ParseUint(shard, 10, 32)
		b, bad := strconv.Atoi(bucket)
		if err = errors.Join(err, bad); err != nil {
			return 0, fmt.Errorf("key %q: %w (shardgen has not written this record)", record.Key, err)
		}
		stored = append(stored, remember.Stored{ShardID: placement.ShardID{Kind: r.kind, Shard: uint32(s)}, Bucket: b, Value: record.Value})
	}
	moved, ids, homeless, err := remember.Reshard(stored, r.locate)
	if err != nil {
		return 0, err
	}
	for _, m := range moved {
		if _, err := r.store.Put(ctx, recordKey(r.base()+to.Space+"/", m.ShardID, m.Bucket), m.Value, store.None); err != nil {
			return 0, fmt.Errorf("move remembered ids from %d shards to %d: %w (are there too few shards for them?)", from.Shards, to.Shards, err)
		}
	}
	if len(homeless) > 0 {
		r.memory.process.Log().Error("remembered entities are dropped: the shard function refuses their ids", "kind", r.kind,
			"entities", len(homeless), "one", bounded.ID(homeless[0]))
	}
	return ids, nil
}

func (r *recorder) drop(ctx context.Context, space func(string) bool) {
	records, err := r.store.List(ctx, r.base())
	for _, record := range records {
		if in, _, _ := strings.Cut(strings.TrimPrefix(record.Key, r.base()), "/"); space(in) {
			err = errors.Join(err, r.store.Delete(ctx, record.Key, record.Revision))
		}
	}
	if err != nil {
		r.memory.process.Log().Warn("superseded records of remembered entities stay in the store", "kind", r.kind, "err", err)
	}
}
