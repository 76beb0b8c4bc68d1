package durable

import (
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
)

// lists requires that a list of the shard has exactly the given ids.
func (s *seat) lists(want ...string) {
	s.d.t.Helper()
	s.pages = nil
	s.core.List(s.now(), durable.Query{Of: durable.IDs, Limit: 100})
	s.run()
	if len(s.pages) != 1 || s.pages[0].Err != nil || s.pages[0].More || !slices.Equal(s.pages[0].IDs, want) {
		s.d.t.Errorf("%s lists %+v, want %q", s.home.name, s.pages, want)
	}
}

// TestListOfNextLife: an entity is listed if it begins a new life while a checkpoint records that
// it has expired.
func TestListOfNextLife(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.lasting("a", "1", time.Hour)
	a.save()
	a.lists("a")
	a.lasting("a", "2", time.Hour)
	a.pass(2 * time.Hour)
	a.hold = only(durable.OpPut)
	a.core.Advance(a.now())
	a.run()
	a.commit("a", "3")
	a.lists("a")
	a.hold = nil
	a.bring(a.held[0])
	a.run()
	a.lists("a")
}

// TestListsOfUnavailableStore: while the store is unavailable, lists repeat their reads more and
// more rarely.
func TestListsOfUnavailableStore(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	a.save()
	reads := 0
	a.hold = func(r durable.Request) bool {
		if r.Op == durable.OpGet {
			reads++
		}
		return false
	}
	d.server.downTill = d.w.now + 10*time.Second
	a.pages = nil
	a.core.List(a.now(), durable.Query{Of: durable.IDs, Limit: 10})
	for d.w.now < d.server.downTill {
		a.run()
	}
	a.run()
	if reads > 30 || len(a.pages) != 1 {
		t.Errorf("%d reads and the pages %+v, want at most 30 reads and one page", reads, a.pages)
	}
}

// TestWalkLosesItsRecord: a walk over the records ends even if the record that should end it is
// lost, because a later record ends it too. (Found by seed 40022: each checkpoint wrote another
// record after it, and lists waited forever.)
func TestWalkLosesItsRecord(t *testing.T) {
	d := newCashier(t, 1)
	a := d.seat(0, 1).open()
	a.commit("a", "1")
	a.save("a")
	lose := func() {
		for key, all := range d.server.shards[0].records { //arch:order-free each by itself
			if key[0] == 'x' {
				d.server.revision++
				d.server.shards[0].records[key] = append(all, store.Record{Key: key, Revision: d.server.revision})
			}
		}
	}
	b := d.seat(0, 2).open()
	lose()
	lists := 0
	b.hold = func(r durable.Request) bool {
		if r.Op == durable.OpList {
			lists++
		}
		return r.Op == durable.OpList && lists == 1
	}
	b.core.List(b.now(), durable.Query{Of: durable.IDs, Limit: 10})
	b.run()
	lose()
	b.core.Advance(b.now())
	b.run()
	b.bring(b.held[0])
	b.run()
	if lists > 1 {
		t.Errorf("the walk lists %d times, although the first list has a record written since", lists)
	}
	b.lists("a")
}
