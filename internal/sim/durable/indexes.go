package durable

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/util/ordered"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// index gives the accounts of some seeds indexes; in some of these seeds, programs have different
// indexes. It takes no number from the run's random source, so other seeds' plans do not change.
func (p *plan) index(seed uint64) {
	if of := seed % 8; of == 1 || of == 2 || of == 4 {
		p.indexes = true
		p.reindex = rand.New(rand.NewPCG(seed, 0x1d)).IntN(3) == 0
	}
}

// indexes returns which indexes a starting program has: 0 means none.
func (r *run) indexes() int {
	switch {
	case !r.plan.indexes:
		return 0
	case r.plan.reindex:
		return r.w.random.IntN(3)
	}
	return 1
}

// keysOf returns an account's keys in the given indexes.
func keysOf(indexes int, balance int64) (keys []byte) {
	switch indexes {
	case 1:
		return ordered.AppendInt(ordered.AppendField(nil, 1), balance%4)
	case 2:
		keys = ordered.AppendInt(ordered.AppendField(nil, 1), balance%3)
		return ordered.AppendString(ordered.AppendField(keys, 2), fmt.Sprintf("b\x00%d", balance/2%4))
	}
	return nil
}

func (h *home) keys(balance int64) []byte { return keysOf(h.index, balance) }

func (h *home) indexing() *durable.Index {
	if h.index == 0 {
		return nil
	}
	return &durable.Index{
		Fields: fmt.Sprintf("%d:%d", h.form, h.index),
		Keys: func(_ string, form uint32, state []byte, since [][]byte) ([]byte, error) {
			if form > h.form {
				return nil, errors.New("a later program wrote the state")
			}
			h.r.counts.Keyed++
			return h.keys(fold(state, since) - shift(form)), nil
		},
	}
}

// indexed checks the index keys in a record.
func (j *judge) indexed(r *wire.DurableRecord) error {
	form, indexes := uint32(0), 0
	if _, err := fmt.Sscanf(r.GetIndexes(), "%d:%d", &form, &indexes); err != nil || form < r.GetForm() {
		return nil // the record has no keys, or another program's
	}
	if want := keysOf(indexes, fold(r.GetState(), r.GetSince())-shift(r.GetForm())); !bytes.Equal(r.GetIndex(), want) {
		return fmt.Errorf("the record of %s v%d has the keys %x, want %x", r.GetEntity(), r.GetVersion(), r.GetIndex(), want)
	}
	return nil
}

// find is a running search for accounts by an index.
type find struct {
	list
	prefix, to string
}

func (f find) wants(key string) bool {
	return strings.HasPrefix(key, f.prefix) && key > f.after && (f.to == "" || key < f.to)
}

// find asks for a page of the shard's index.
func (t *tenure) find() {
	h, r := t.home, t.home.r
	if t.core.State() == durable.Dropped || h.index == 0 {
		return
	}
	field := func(n int) string { return string(ordered.AppendField(nil, n)) }
	f := find{list: list{limit: 1 + r.w.random.IntN(6), before: map[string]int{}}, prefix: field(1 + r.w.random.IntN(h.index))}
	balance := r.w.random.Int64N(9) - 4
	keys := slices.Collect(eachKey(h.keys(balance)))
	key := keys[len(keys)-1]
	switch {
	case r.calm:
		f.limit, f.after, f.prefix = 2*r.plan.accounts, t.found, ""
	case r.w.chance(0.4):
		f.prefix = key
		if r.w.chance(0.3) {
			f.after = key + r.anyAccount()
		}
	case r.w.chance(0.5):
		f.prefix, f.after = key[:1], key
		f.to = string(ordered.AppendInt(ordered.AppendField(nil, 1), balance+2))
	}
	for id, all := range r.judge.shards[t.shard].entities { //arch:order-free each by itself
		f.before[id] = len(all)
	}
	t.finds[t.core.List(h.clock.now(), durable.Query{Of: durable.Keys, Prefix: f.prefix, After: f.after, To: f.to, Limit: f.limit})] = f
	t.step()
	h.later(r.w.between(0, r.plan.lists), t.find)
}

func eachKey(keys []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(keys) > 0 {
			n := ordered.SizeOfKey(keys)
			if !yield(string(keys[:n])) {
				return
			}
			keys = keys[n:]
		}
	}
}

// foundPage compares a page with the log, once the log has all commits that the page may show.
func (t *tenure) foundPage(p durable.Page) {
	f, r := t.finds[p.List], t.home.r
	delete(t.finds, p.List)
	switch {
	case errors.Is(p.Err, durable.ErrIndexing):
		r.counts.Unindexed++
		return
	case p.Err != nil:
		return
	}
	ticket := max(p.Ticket, t.core.Observe(t.home.clock.now(), "", false))
	t.wait(ticket, func() {
		r.counts.Found++
		if err := t.checkFound(f, p); err != nil {
			r.w.fail("%s, shard %d: find %q after %q to %q of %d: %q: %w", t.home.name, t.shard, f.prefix, f.after, f.to, f.limit, p.IDs, err)
		}
		if t.found = ""; p.More {
			t.found = p.IDs[len(p.IDs)-1]
		}
		if r.calm && !p.More {
			r.judge.shards[t.shard].found = true
		}
	})
}

func (t *tenure) checkFound(f find, p durable.Page) error {
	r := t.home.r
	truth := r.judge.shards[t.shard]
	if len(p.IDs) > f.limit || !slices.IsSorted(p.IDs) || len(slices.Compact(slices.Clone(p.IDs))) < len(p.IDs) || p.More && len(p.IDs) == 0 {
		return errors.New("the page is too long, or not in order")
	}
	if truth.crashed || truth.tainted || r.judge.blind {
		return nil
	}
	known := map[string]bool{} // keys that existed at some moment of the find
	for _, id := range slices.Sorted(maps.Keys(truth.entities)) {
		all, had := truth.entities[id], f.before[id]
		now := all[max(had-1, 0):]
		steady := map[string]int{}
		for _, c := range now {
			if c.form > t.home.form {
				return nil // the account's state is unreadable here
			}
			for key := range eachKey(t.home.keys(c.balance())) {
				if key += id; !c.ended {
					known[key] = true
				}
				if !c.ended && c.expires == 0 {
					steady[key]++
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(steady)) {
			if had == 0 || steady[key] < len(now) || !f.wants(key) || p.More && key > p.IDs[len(p.IDs)-1] {
				continue
			}
			if r.counts.Steady++; !slices.Contains(p.IDs, key) {
				return fmt.Errorf("the key %q of %s is missing; the account had %d commits and has %d", key, id, had, len(all))
			}
		}
	}
	for _, key := range p.IDs {
		if !known[key] || !f.wants(key) {
			return fmt.Errorf("no account has the key %q", key)
		}
	}
	return nil
}

// foundAll reports whether each shard has answered a find since the last fault.
func (r *run) foundAll() bool {
	return !r.plan.indexes || !slices.ContainsFunc(r.shards(), func(shard int) bool {
		if r.judge.shards[shard].found {
			return false
		}
		home := r.coordinator.homeOf(shard)
		return home == nil || home.index > 0
	})
}

// snap reads a shard as an operator's command does.
func (r *run) snap(shard int) durable.Snapshot {
	k := r.server.shards[shard]
	head := r.server.head(shard)
	var log []store.Append
	for _, a := range k.log {
		if a.Position >= head.Since {
			log = append(log, a)
		}
	}
	var records []store.Record
	for key := range k.records { //arch:order-free Snap does not depend on it
		if rec := r.server.record(shard, key); len(rec.Value) > 0 {
			records = append(records, rec)
		}
	}
	return durable.Snap(head, log, records, nil)
}

// verified returns an error if an operator's check finds other keys in the catalog than in the
// records.
func (r *run) verified(shard int) error {
	for _, p := range r.snap(shard).Problems {
		if strings.HasPrefix(p.Place, "catalog, keys of entity") {
			return fmt.Errorf("%s: %w", p.Place, p.Err)
		}
	}
	return nil
}
