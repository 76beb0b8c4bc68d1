package durable

import (
	"strings"
	"testing"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/store"
)

// refused requires that the seat does not open the shard, because the store has lost a part of the log.
func (s *seat) refused(why string) {
	s.d.t.Helper()
	s.run()
	for _, e := range s.events {
		if e.Err != nil && strings.Contains(e.Err.Error(), why) && strings.Contains(e.Err.Error(), "shardctl store repair") {
			return
		}
	}
	s.d.t.Errorf("%s: state %d, events %+v: want that it refuses the shard, since %q", s.home.name, s.core.State(), s.events, why)
}

// TestHeadIsLost: the store has lost the head of a shard with a log. No home opens the shard, though the first
// one writes a new head, because nobody knows what records the shard had.
func TestHeadIsLost(t *testing.T) {
	d := blindDesk(t)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	d.server.shards[0].head = nil
	for epoch := range uint64(3) {
		d.seat(0, 2+epoch).refused("is older than the head")
	}
}

// TestLogLacksItsBeginning: the store has lost the first appends of a log that was never trimmed.
func TestLogLacksItsBeginning(t *testing.T) {
	d := blindDesk(t)
	a := d.seat(0, 1).open()
	a.commit("x", "1")
	a.commit("y", "1")
	log := d.server.shards[0].log
	if since := d.server.head(0).Since; since != store.Start {
		t.Fatalf("the head needs the log from %d, want from its start", since)
	}
	d.server.shards[0].log = log[len(log)-1:]
	for epoch := range uint64(2) {
		d.seat(0, 2+epoch).refused("is no claim")
	}
}

// TestHeadWithoutClaim: a home that dies between its head and its claim, and a claim that comes late, leave a
// shard that others open.
func TestHeadWithoutClaim(t *testing.T) {
	d := blindDesk(t)
	late := d.late(2)
	a := d.seat(0, 3)
	a.hold = only(durable.OpAppend)
	a.run()
	late()
	b := d.seat(0, 4).open()
	b.commit("x", "1")
	a.bring(a.held[0])
	d.seat(0, 5).open().want("x", "1", 1)
}
