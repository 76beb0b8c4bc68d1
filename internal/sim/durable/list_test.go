package durable

import (
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
)

// lists requires that a list of the shard has exactly the given ids.
func (s *seat) lists(want ...string) {
	s.d.t.Helper()
	s.pages = nil
	s.core.List(s.now(), "", "", 100)
	s.run()
	if len(s.pages) != 1 || s.pages[0].Err != nil || s.pages[0].More || !slices.Equal(s.pages[0].IDs, want) {
		s.d.t.Errorf("%s lists %+v, want %q", s.home.name, s.pages, want)
	}
}

// TestListOfNextLife: an entity that begins a new life while a checkpoint writes that it has expired
// is listed.
func TestListOfNextLife(t *testing.T) {
	d := newDesk(t, 1)
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

// TestListsOfUnavailableStore: lists repeat their reads more and more rarely.
func TestListsOfUnavailableStore(t *testing.T) {
	d := newDesk(t, 1)
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
	a.core.List(a.now(), "", "", 10)
	for d.w.now < d.server.downTill {
		a.run()
	}
	a.run()
	if reads > 30 || len(a.pages) != 1 {
		t.Errorf("%d reads and the pages %+v, want at most 30 reads and one page", reads, a.pages)
	}
}
