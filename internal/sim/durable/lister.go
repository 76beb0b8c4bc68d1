package durable

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// list is a running listing of a shard's accounts.
type list struct {
	after  string
	limit  int
	before map[string]int // how many commits each account had when the list began
}

// list asks for a page of the shard's accounts, or makes the store lose a leaf of the catalog.
func (t *tenure) list() {
	h, r := t.home, t.home.r
	if t.core.State() == durable.Dropped {
		return
	}
	if !r.calm && r.w.chance(0.02) {
		r.server.loseLeaf(t.shard)
		r.counts.Damaged++
	}
	l := list{limit: 1 + r.w.random.IntN(6), before: map[string]int{}}
	if r.w.chance(0.5) && !r.calm {
		l.after = fmt.Sprintf("a%d", r.w.random.IntN(r.plan.accounts))
	}
	if r.calm {
		l.limit, l.after = r.plan.accounts, t.cursor
	}
	for id, all := range r.judge.shards[t.shard].entities { //arch:order-free each by itself
		l.before[id] = len(all)
	}
	t.lists[t.core.List(h.clock.now(), durable.Query{Of: durable.IDs, Prefix: "a", After: l.after, Limit: l.limit})] = l
	t.step()
	h.later(r.w.between(0, r.plan.lists), t.list)
}

// page compares a page with the log, once the log has all commits that the page may show.
func (t *tenure) page(p durable.Page) {
	l, r := t.lists[p.List], t.home.r
	delete(t.lists, p.List)
	switch {
	case errors.Is(p.Err, durable.ErrIndexing):
		r.counts.Indexing++
		return
	case p.Err != nil:
		return
	}
	ticket := max(p.Ticket, t.core.Observe(t.home.clock.now(), "", false)) // the ticket shows that the shard is still here
	t.wait(ticket, func() {
		r.counts.Listed++
		if err := t.check(l, p); err != nil {
			r.w.fail("%s, shard %d: list after %q of %d: %v: %w", t.home.name, t.shard, l.after, l.limit, p.IDs, err)
		}
		if t.cursor = ""; p.More {
			t.cursor = p.IDs[len(p.IDs)-1]
		}
		if r.calm && !p.More {
			r.judge.shards[t.shard].listed = true
		}
	})
}

func (t *tenure) check(l list, p durable.Page) error {
	r := t.home.r
	truth := r.judge.shards[t.shard]
	if len(p.IDs) > l.limit || !slices.IsSorted(p.IDs) || len(slices.Compact(slices.Clone(p.IDs))) < len(p.IDs) || p.More && len(p.IDs) == 0 {
		return errors.New("the page is too long, or not in order")
	}
	if truth.crashed || truth.tainted || r.judge.blind {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(truth.entities)) {
		if id <= l.after || p.More && id > p.IDs[len(p.IDs)-1] || !strings.HasPrefix(id, "a") {
			continue
		}
		all, had := truth.entities[id], l.before[id]
		there, stays := slices.Contains(p.IDs, id), had > 0
		for _, c := range all[max(had-1, 0):] {
			stays = stays && !c.ended && c.expires == 0
		}
		switch {
		case stays && !there:
			return fmt.Errorf("%s is missing; it had %d commits and has %d", id, had, len(all))
		case there && had == len(all) && all[had-1].ended:
			return fmt.Errorf("%s has ended", id)
		}
		if stays {
			r.counts.Present++
		} else if !there {
			r.counts.Absent++
		}
	}
	for _, id := range p.IDs {
		if len(truth.entities[id]) == 0 {
			return fmt.Errorf("%s was never committed", id)
		}
	}
	return nil
}

// listed reports whether each shard has answered a list since the last fault.
func (r *run) listed() bool {
	return r.plan.lists == 0 || !slices.ContainsFunc(r.shards(), func(shard int) bool { return !r.judge.shards[shard].listed })
}

// loseLeaf deletes a record of the shard's catalog.
func (s *server) loseLeaf(shard int) {
	k := s.shards[shard]
	for _, key := range slices.Sorted(maps.Keys(k.records)) {
		if key[0] == 'x' && s.w.chance(0.5) {
			s.revision++
			k.records[key] = append(k.records[key], store.Record{Key: key, Revision: s.revision})
		}
	}
}
