package remember

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/store"
)

// Buckets is the number of store records over which a shard's ids are spread, by hash. A change of
// an id thus rewrites only about an eighth of the shard's ids.
const Buckets = 8

// storeRetry is the pause before a failed request is repeated. A new Add to the record ends the
// pause, unless the read of the shard has failed.
const storeRetry = time.Second

// A StoreMachine remembers the entities of one type's shards at one node in a store. Its driver
// sends requests only while the node's lease is valid. Its inputs are [Open], [Close], [Add],
// [Remove] and [Tick], and the store's answers [Loaded], [Written] and [Found]. It is not safe for
// concurrent use.
//
// Invariants:
//  1. No record of a shard is written before the shard's records were read.
//  2. Of each record at most one write or find is under way.
//  3. While an Add waits for a record, a write or find of that record is under way, or the record's
//     shard is not read yet.
type StoreMachine struct {
	kind   Kind
	now    time.Time
	out    StoreOutput
	gen    uint64
	shards map[placement.ShardID]*shardSet
}

// A StoreOutput has requests to the store and results for the driver.
type StoreOutput struct {
	Load     []Load
	Write    []Write
	Find     []Write // get the revision of each record
	Activate []Activate
	Done     []Done
	Recalled []Recollection
	// WakeAt is when the next Step is due, if nothing happens before; zero means never.
	WakeAt time.Time
}

// Load asks for all records of a shard. Gen is the number of the shard's present stay at this node,
// so that answers from an earlier stay are ignored.
type Load struct {
	placement.ShardID
	Gen uint64
}

// Write asks the store to put a record if the record has revision Expect.
type Write struct {
	Load
	Bucket int
	Value  []byte
	Expect store.Revision
}

// Loaded is the answer to a Load.
type Loaded struct {
	Load
	Records []Record
	Err     error
}

// A Record is one record of a shard, as the store has it.
type Record struct {
	Bucket   int
	Value    []byte
	Revision store.Revision
}

// Written is the answer to a Write.
type Written struct {
	Load
	Bucket   int
	Revision store.Revision
	Err      error
}

// Found answers a StoreOutput.Find. Its Revision is None if the store has no such record.
type Found Written

func (Loaded) input()  {}
func (Written) input() {}
func (Found) input()   {}

type shardSet struct {
	id      placement.ShardID
	gen     uint64
	ids     map[string]struct{}
	known   bool // the ids came with the shard
	loaded  bool
	retryAt time.Time           // when to load again; zero means that a Load is under way, or done
	gone    map[string]struct{} // ids forgotten since the shard opened, until it is loaded
	buckets [Buckets]bucket
}

type bucket struct {
	revision store.Revision
	dirty    bool
	busy     bool      // a write or a find is under way
	retryAt  time.Time // when to repeat the failed request
	waits    []wait    // Adds that wait for the next write
	flight   []wait    // Adds that wait for the write under way
}

// NewStoreMachine returns a machine without shards.
func NewStoreMachine(k Kind) *StoreMachine {
	return &StoreMachine{kind: k.withDefaults(), shards: map[placement.ShardID]*shardSet{}}
}

// Step handles one input and returns the resulting actions. now must not go back.
func (b *StoreMachine) Step(now time.Time, in Input) StoreOutput {
	b.now, b.out = now, StoreOutput{}
	switch in := in.(type) {
	case Open:
		b.open(in)
	case Close:
		b.close(in.ShardID)
	case Add:
		b.add(in)
	case Remove:
		b.remove(in)
	case Loaded:
		if p := b.answered(in.Load); p != nil && !p.loaded {
			b.loaded(p, in)
		}
	case Written:
		if p := b.answered(in.Load); p != nil {
			b.written(p, in)
		}
	case Found:
		if p := b.answered(in.Load); p != nil {
			b.found(p, in)
		}
	case Tick:
	default:
		invariant.Failf("remember: a store machine has no input %T", in)
	}
	b.sendDue()
	return b.out
}

func (b *StoreMachine) answered(l Load) *shardSet {
	if p := b.shards[l.ShardID]; p != nil && p.gen == l.Gen {
		return p
	}
	return nil
}

func (b *StoreMachine) open(in Open) {
	if p := b.shards[in.ShardID]; p != nil { // the shard never left
		if p.loaded || p.known {
			b.activate(p, sortedIDs(p.ids))
		}
		return
	}
	b.gen++
	p := &shardSet{id: in.ShardID, gen: b.gen, known: in.Known, ids: map[string]struct{}{}, gone: map[string]struct{}{}}
	for _, id := range in.IDs {
		p.ids[id] = struct{}{}
	}
	b.shards[in.ShardID] = p
	b.out.Load = append(b.out.Load, Load{p.id, p.gen})
	if p.known {
		b.activate(p, sortedIDs(p.ids))
	}
}

func (b *StoreMachine) activate(p *shardSet, ids []string) {
	if len(ids) > 0 {
		b.out.Activate = append(b.out.Activate, Activate{p.id, ids})
	}
}

func (b *StoreMachine) close(id placement.ShardID) {
	p := b.shards[id]
	if p == nil {
		return
	}
	delete(b.shards, id)
	for i := range p.buckets {
		b.answerAll(&p.buckets[i], nil) // the shard is not here any more: nothing depends on these answers
	}
}

func (b *StoreMachine) answerAll(k *bucket, err error) {
	for _, w := range slices.Concat(k.flight, k.waits) {
		b.done(w, err)
	}
	k.flight, k.waits = nil, nil
}

func (b *StoreMachine) done(w wait, err error) {
	b.out.Done = append(b.out.Done, Done{w.ticket, w.added, err})
}

func bucketOf(id string) int { return int(xxhash.Sum64String(id) % Buckets) }

func (b *StoreMachine) add(in Add) {
	p := b.shards[in.ShardID]
	if p == nil {
		b.done(wait{ticket: in.Ticket}, nil)
		return
	}
	_, had := p.ids[in.ID]
	if !had && len(p.ids) >= b.kind.Max {
		b.done(wait{ticket: in.Ticket}, fmt.Errorf("%w: %d", ErrFull, b.kind.Max))
		return
	}
	k := &p.buckets[bucketOf(in.ID)]
	if !had {
		p.ids[in.ID] = struct{}{}
		delete(p.gone, in.ID)
		k.dirty = true
	}
	if !k.dirty && !k.busy && p.loaded {
		b.done(wait{ticket: in.Ticket, added: !had}, nil)
		return
	}
	w := wait{ticket: in.Ticket, added: !had}
	if k.busy && !k.dirty {
		k.flight = append(k.flight, w) // the write under way has it
		return
	}
	k.waits = append(k.waits, w)
	k.retryAt = time.Time{} // somebody waits: try at once
}

func (b *StoreMachine) remove(in Remove) {
	p := b.shards[in.ShardID]
	if p == nil {
		return
	}
	if !p.loaded {
		p.gone[in.ID] = struct{}{}
	}
	if _, had := p.ids[in.ID]; had {
		delete(p.ids, in.ID)
		p.buckets[bucketOf(in.ID)].dirty = true
	}
}

// loaded adds the stored ids, unless the ids came from the shard's former home.
func (b *StoreMachine) loaded(p *shardSet, in Loaded) {
	var stored []string
	err := in.Err
	for _, r := range in.Records {
		ids, bad := decodeBucket(p.id, r.Value)
		if err = errors.Join(err, bad); bad != nil || r.Bucket < 0 || r.Bucket >= Buckets {
			continue
		}
		p.buckets[r.Bucket].revision = r.Revision
		stored = append(stored, ids...)
	}
	if err != nil {
		p.retryAt = b.now.Add(storeRetry)
		for i := range p.buckets {
			b.answerAll(&p.buckets[i], err)
		}
		return
	}
	p.loaded = true
	var back []string
	if !p.known {
		for _, id := range stored {
			if _, gone := p.gone[id]; !gone {
				back = append(back, id)
				p.ids[id] = struct{}{}
			}
		}
		slices.Sort(back)
		b.out.Recalled = append(b.out.Recalled, Recollection{ShardID: p.id, Found: len(back)})
		b.activate(p, back)
	}
	p.gone = nil
	for i := range p.buckets {
		// The stored set is written once more. Otherwise a late write of the former home could
		// remove ids that this home assumes to be safe.
		k := &p.buckets[i]
		k.dirty = k.revision != store.None || len(p.bucket(i)) > 0
		if !k.dirty {
			b.answerAll(k, nil) // the ids that these Adds wait for were forgotten meanwhile
		}
	}
}

func (p *shardSet) bucket(i int) (ids []string) {
	for id := range p.ids { //arch:order-free sorted below
		if bucketOf(id) == i {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (b *StoreMachine) written(p *shardSet, in Written) {
	k := &p.buckets[in.Bucket]
	switch {
	case in.Err == nil:
		k.busy, k.revision = false, in.Revision
		for _, w := range k.flight {
			b.done(w, nil)
		}
		k.flight = nil
	case errors.Is(in.Err, store.ErrConflict):
		b.out.Find = append(b.out.Find, Write{Load: in.Load, Bucket: in.Bucket})
	default:
		b.gaveUp(k, in.Err)
	}
}

// found handles the answer to a find after a conflict: the record is written again over the found
// value.
func (b *StoreMachine) found(p *shardSet, in Found) {
	k := &p.buckets[in.Bucket]
	if in.Err != nil {
		b.gaveUp(k, in.Err)
		return
	}
	k.revision, k.busy = in.Revision, false
	k.waits = slices.Concat(k.flight, k.waits)
	k.flight, k.dirty = nil, true
}

func (b *StoreMachine) gaveUp(k *bucket, err error) {
	k.busy, k.dirty = false, true
	k.retryAt = b.now.Add(storeRetry)
	b.answerAll(k, err)
}

func (b *StoreMachine) sendDue() {
	sooner := func(t time.Time) {
		if b.out.WakeAt.IsZero() || t.Before(b.out.WakeAt) {
			b.out.WakeAt = t
		}
	}
	for _, id := range sortedShards(b.shards) {
		p := b.shards[id]
		switch {
		case p.loaded:
		case p.retryAt.IsZero(): // under way
			continue
		case b.now.Before(p.retryAt):
			sooner(p.retryAt)
			continue
		default:
			p.retryAt = time.Time{}
			b.out.Load = append(b.out.Load, Load{p.id, p.gen})
			continue
		}
		for i := range p.buckets {
			k := &p.buckets[i]
			switch {
			case !k.dirty || k.busy:
			case b.now.Before(k.retryAt):
				sooner(k.retryAt)
			default:
				b.write(p, i)
			}
		}
	}
}

func (b *StoreMachine) write(p *shardSet, i int) {
	k := &p.buckets[i]
	value, err := encodeBucket(p.id, p.bucket(i))
	if err != nil {
		b.gaveUp(k, err)
		return
	}
	k.dirty, k.busy = false, true
	k.flight, k.waits = k.waits, nil
	b.out.Write = append(b.out.Write, Write{Load{p.id, p.gen}, i, value, k.revision})
}

func sortedShards(shards map[placement.ShardID]*shardSet) []placement.ShardID {
	ids := make([]placement.ShardID, 0, len(shards))
	for id := range shards { //arch:order-free sorted below
		ids = append(ids, id)
	}
	slices.SortFunc(ids, placement.ShardID.Compare)
	return ids
}

// Idle reports whether all changes have been written, for the shards that were read from the store.
func (b *StoreMachine) Idle() bool {
	for _, p := range b.shards { //arch:order-free any will do
		for i := range p.buckets {
			if k := &p.buckets[i]; p.loaded && (k.dirty || k.busy) {
				return false
			}
		}
	}
	return true
}

// Has reports whether an entity of a shard that runs here is remembered.
func (b *StoreMachine) Has(id placement.ShardID, entity string) (has bool) {
	if p := b.shards[id]; p != nil {
		_, has = p.ids[entity]
	}
	return has
}

// IDs returns the sorted ids of a shard that runs here. known is false until the shard was read
// from the store, when ids may be missing.
func (b *StoreMachine) IDs(id placement.ShardID) (ids []string, known bool) {
	p := b.shards[id]
	if p == nil {
		return nil, false
	}
	return sortedIDs(p.ids), p.loaded || p.known
}

func encodeBucket(id placement.ShardID, ids []string) ([]byte, error) {
	w := &wire.RememberSet{Kind: id.Kind, Shard: id.Shard}
	for _, e := range ids {
		w.Ids = append(w.Ids, []byte(e))
	}
	return proto.Marshal(w)
}

func decodeBucket(id placement.ShardID, b []byte) ([]string, error) {
	var w wire.RememberSet
	if err := proto.Unmarshal(b, &w); err != nil {
		return nil, fmt.Errorf("read remembered ids of %v: %w (did another program write the record?)", id, err)
	}
	if w.GetKind() != id.Kind || w.GetShard() != id.Shard {
		return nil, fmt.Errorf("read remembered ids of %v: the record belongs to type %.20q, shard %d", id, w.GetKind(), w.GetShard())
	}
	ids := make([]string, 0, len(w.GetIds()))
	for _, e := range w.GetIds() {
		if len(e) == 0 || len(e) > MaxIDBytes {
			return nil, fmt.Errorf("read remembered ids of %v: the record has an invalid id of %d bytes", id, len(e))
		}
		ids = append(ids, string(e))
	}
	return ids, nil
}

// A Stored is one record of a shard's ids in a store.
type Stored struct {
	placement.ShardID
	Bucket int
	Value  []byte
}

// Reshard moves each id to the shard that locate returns. It returns the type's new records in the
// order of shards and buckets, with each id once; the number of ids; and the ids for which locate
// fails.
func Reshard(records []Stored, locate func(id string) (shard uint32, err error)) (moved []Stored, ids int, homeless []string, err error) {
	type place struct {
		placement.ShardID
		bucket int
	}
	sets := map[place]map[string]struct{}{}
	for _, r := range records {
		stored, err := decodeBucket(r.ShardID, r.Value)
		if err != nil {
			return nil, 0, nil, err
		}
		for _, id := range stored {
			shard, err := locate(id)
			if err != nil {
				homeless = append(homeless, id)
				continue
			}
			p := place{placement.ShardID{Kind: r.Kind, Shard: shard}, bucketOf(id)}
			if sets[p] == nil {
				sets[p] = map[string]struct{}{}
			}
			sets[p][id] = struct{}{}
		}
	}
	for p, set := range sets { //arch:order-free sorted below
		value, err := encodeBucket(p.ShardID, sortedIDs(set))
		if err != nil {
			return nil, 0, nil, err
		}
		moved, ids = append(moved, Stored{p.ShardID, p.bucket, value}), ids+len(set)
	}
	slices.SortFunc(moved, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Bucket, b.Bucket))
	})
	return moved, ids, homeless, nil
}
