package storeops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
)

// ErrExists is the error of [Writer.Write] for an entity that it would overwrite; test with
// errors.Is.
var ErrExists = errors.New("the entity exists already")

// ErrUsed is the error of [Writer.Restore] for a shard that has been used before; test with
// errors.Is.
var ErrUsed = errors.New("the shard has been used")

// An Entity is an entity to be written.
type Entity struct {
	Shard int
	ID    string
	State []byte
	Form  uint32 // the version of State, by the type's directive; 0 means the first
	Ended bool   // the entity must be deleted
	// Expires is when the entity expires, as Unix time in milliseconds; 0 means never.
	Expires int64
}

// A Writer writes entities of one type. The caller must Close it, even after an error.
type Writer struct {
	Replace bool // overwrite existing entities

	store       Store
	kind        string
	term        uint32
	incarnation uint64
	ctx         context.Context // of the writer's goroutines, not of a call
	stop        context.CancelFunc
	shards      map[int]*durablehost.Shard
	cluster     string
	clock       *durablehost.Clock
	unconfirmed map[*durablehost.Tenure]durable.Ticket // the last commit of each shard
	written     int                                    // since the last Flush

	mu    sync.Mutex
	ended bool
	wg    sync.WaitGroup
}

// together is how many entities Write writes before it waits for the store.
const together = 256

const writerName = "shardctl"

// NewWriter begins a new term of the cluster, and records the type in the store. It fails if the
// store has the type with other properties.
func NewWriter(ctx context.Context, s Store, kind string, t durablehost.Type) (*Writer, error) {
	if err := durablehost.CheckType(ctx, s, kind, t); err != nil {
		return nil, err
	}
	term, _, err := durablehost.NextTerm(ctx, s, t.Cluster, 1)
	if err != nil {
		return nil, err
	}
	clock, err := clockOf(ctx, s)
	if err != nil {
		return nil, err
	}
	w := &Writer{
		store: s, kind: kind, term: term, incarnation: rand.Uint64(), cluster: t.Cluster, clock: clock,
		shards: make(map[int]*durablehost.Shard), unconfirmed: make(map[*durablehost.Tenure]durable.Ticket),
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// placed returns the first epoch that a coordinator of the writer's term would assign.
func (w *Writer) placed() uint64 { return uint64(w.term)<<32 | 1 }

// Write writes an entity. The entity is in the store once Flush or Close has returned nil. Write
// fails with ErrExists if the entity exists, unless Replace is set.
func (w *Writer) Write(ctx context.Context, e Entity) error {
	subject := fmt.Sprintf("write %s/%s", w.kind, e.ID)
	t, err := w.shard(e.Shard).Tenure(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	there, err := t.Load(ctx, e.ID)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", subject, err)
	case there.Found && !w.Replace:
		return fmt.Errorf("%s: %w (-replace overwrites it)", subject, ErrExists)
	case !there.Found && e.Ended:
		return nil
	}
	ticket, err := t.Commit(&durable.Turn{Entity: e.ID, State: e.State, Ended: e.Ended, Form: e.Form, Expires: e.Expires})
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	w.unconfirmed[t] = ticket
	if w.written++; w.written%together == 0 {
		return w.Flush(ctx)
	}
	return nil
}

// Flush waits until the store has all written entities.
func (w *Writer) Flush(ctx context.Context) error {
	for t, ticket := range w.unconfirmed {
		if err := t.Wait(ctx, ticket); err != nil {
			return fmt.Errorf("write %s: %w (repeat the command)", w.kind, err)
		}
		delete(w.unconfirmed, t)
	}
	return nil
}

func (w *Writer) shard(number int) *durablehost.Shard {
	if s := w.shards[number]; s != nil {
		return s
	}
	host := &durablehost.Process{Cluster: w.cluster, Store: w.store, Ctx: w.ctx, Spawn: w.spawn, Log: slog.New(slog.DiscardHandler)}
	s := durablehost.New(durablehost.Config{
		Shard: store.Shard{Type: w.kind, Number: number}, Store: w.store.Shards(),
		Node: writerName, Incarnation: w.incarnation, Host: host, Clock: w.clock, Journal: durable.Journal{On: true},
	})
	s.Open(w.placed())
	w.shards[number] = s
	return s
}

func (w *Writer) spawn(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.wg.Go(f)
	}
}

// Close waits as Flush does, writes everything in the shards' logs to records, and releases the
// shards.
func (w *Writer) Close(ctx context.Context) error {
	errs := []error{w.Flush(ctx)}
	for _, s := range w.shards {
		errs = append(errs, s.Leave(ctx, w.placed()))
		s.Close()
	}
	w.stop()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wg.Wait()
	return errors.Join(errs...)
}

// Restore writes a part of an image into a shard. The shard must never have been used or, if
// Replace is set, only by Restore; otherwise Restore of the first part fails with ErrUsed and
// writes nothing. The shard can be opened once the last part is written.
func (w *Writer) Restore(ctx context.Context, number int, part Image, first, last bool) error {
	shard := store.Shard{Type: w.kind, Number: number}
	head, err := w.store.Shards().Head(ctx, shard)
	if err != nil {
		return err
	}
	if first {
		_, node, err := durable.HeadBy(head)
		position, errLast := w.store.Last(ctx, shard)
		switch {
		case err != nil || errLast != nil:
			return errors.Join(err, errLast)
		case position != store.Start, head.Revision != store.None && (node != writerName || !w.Replace):
			return fmt.Errorf("shard %v: %w", shard, ErrUsed)
		}
	}
	return w.put(ctx, shard, head, part, first, last, false)
}

// ReplaceShard replaces the contents of a whole shard, even of a damaged one, by an image. Before
// the image it appends a claim to the shard's log, which makes all earlier entries void. After an
// error the shard may be incomplete, and then does not open: repeat the call.
func (w *Writer) ReplaceShard(ctx context.Context, number int, image Image) error {
	shard := store.Shard{Type: w.kind, Number: number}
	head, err := w.store.Shards().Head(ctx, shard)
	if err != nil {
		return err
	}
	return w.put(ctx, shard, head, image, true, true, true)
}

// put writes a part of an image; the first part replaces all records. If claim is set, part must be
// the whole image, and put first appends a claim to the log.
func (w *Writer) put(ctx context.Context, shard store.Shard, head store.Head, part Image, first, last, claim bool) error {
	s := w.store.Shards()
	epoch, err := durablehost.StoreEpoch(w.placed(), 0)
	if err != nil {
		return err
	}
	if now, _, err := durable.HeadBy(head); claim && err == nil && now >= epoch {
		return fmt.Errorf("shard %v has epoch %d, which is not below the new epoch %d (try again)", shard, now, epoch)
	}
	revision, since := head.Revision, head.Since
	set := func(whole bool) error {
		next, err := durable.RestoredHead(part.Head, writerName, w.incarnation, epoch, whole)
		if err != nil {
			return err
		}
		next.Revision, next.Since = revision, since
		revision, err = s.SetHead(ctx, shard, next)
		return err
	}
	if first {
		err := set(false)
		if err == nil && claim {
			since, err = s.Append(ctx, shard, store.Any, durable.ClaimAppend(writerName, w.incarnation, epoch))
		}
		if err == nil {
			err = dropAll(ctx, s, shard, revision)
		}
		if err != nil {
			return err
		}
	}
	if err := putAll(ctx, s, shard, revision, part.Records); err != nil || !last {
		return err
	}
	return set(true)
}
