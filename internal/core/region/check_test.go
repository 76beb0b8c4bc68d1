package region

import (
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// TestCheckSeesWhatIsBroken breaks the invariants of an open shard one at a time: Check must notice
// each.
func TestCheckSeesWhatIsBroken(t *testing.T) {
	forward := func(s *Shard) {
		s.state = Forwarding
		s.departures.add(node("b"), s.epoch)
	}
	owe := func(s *Shard) { s.owed = owed{node("c"): time.Unix(1, 0)} }
	flag := func(s *Shard, f uint64) { // all entities
		for e := range s.entities.all() {
			e.word.Store(e.word.Load() | f)
		}
	}
	for name, tt := range map[string]struct {
		invariant string
		damage    func(s *Shard)
	}{
		"a turn while it is prepared": {"invariant 1:", func(s *Shard) {
			s.entity("x")
			flag(s, busy|wanted)
			s.state = Prepared
		}},
		"a live entity that is not listed":    {"invariant 11:", func(s *Shard) { s.entity("x"); flag(s, live) }},
		"a live entity that is not counted":   {"invariant 11:", func(s *Shard) { awake(s, 1); s.entities.all()(func(e *Entity) bool { e.word.Store(0); return true }) }},
		"idle, and not wanted while it moves": {"invariant 9:", func(s *Shard) { awake(s, 1); s.state = Draining }},
		"live without a value while it moves": {"invariant 9:", func(s *Shard) {
			awake(s, 1)
			flag(s, wanted)
			s.state = Draining
			s.entities.all()(func(e *Entity) bool { e.Value = nil; return true })
		}},
		"a turn that is not counted":      {"invariant 2:", func(s *Shard) { s.state, s.running = Draining, 1 }},
		"forwarding, and it went nowhere": {"invariant 5:", func(s *Shard) { s.state = Forwarding }},
		"closed, and it went somewhere":   {"invariant 5:", func(s *Shard) { forward(s); s.state = Closed }},
		"a call waits whose epoch is reached": {"invariant 4:", func(s *Shard) {
			if _, v := s.Deliver(&Call{Entity: "x", Sender: transport.Peer{Address: node("c")}, Epoch: s.epoch + 1}, 0, time.Unix(1000, 0)); v != Queued {
				t.Fatalf("the call is ahead of the table: %v", v)
			}
			s.epoch++
		}},
		"open since never":                {"invariant 6:", func(s *Shard) { s.since = 0 }},
		"open since later":                {"invariant 6:", func(s *Shard) { s.since = s.epoch + 1 }},
		"forwarding since never":          {"invariant 6:", func(s *Shard) { forward(s); s.since = 0 }},
		"sent while an entity is active":  {"invariant 7:", func(s *Shard) { awake(s, 1); flag(s, wanted); s.state = Sent }},
		"on offer, and it does not serve": {"invariant 8:", func(s *Shard) { s.offered = &move{} }},
		"on offer, and it is not open":    {"invariant 8:", func(s *Shard) { s.limits.Handoff.Serving, s.offered, s.state = true, &move{}, Prepared }},
		"not direct and not barred":       {"invariant 10:", func(s *Shard) { s.barred.Store(false) }},
		"a barrier, and it is not barred": {"invariant 10:", func(s *Shard) { s.direct = true; s.barriers.closed = []*barrier{{}}; s.barred.Store(false) }},
		"bytes reserved for nothing":      {"invariant 12:", func(s *Shard) { s.bytes = 1 }},
		"settled while it is open":        {"invariant 13:", func(s *Shard) { s.settled = true }},
		"owed while it is open":           {"invariant 13:", func(s *Shard) { owe(s) }},
		"owed, and settled":               {"invariant 13:", func(s *Shard) { forward(s); owe(s); s.settled = true }},
		"closed, and it has an entity":    {"invariant 14:", func(s *Shard) { s.entity("x"); s.state = Closed }},
		"a tell that is counted in no turn of tells": {"invariant 15:", func(s *Shard) {
			awake(s, 1)
			s.entities.all()(func(e *Entity) bool { e.word.Add(oneTell); return true })
		}},
		"a call's turn that may end outside the lock": {"invariant 16:", func(s *Shard) {
			s.name(s.entity("x"), &Call{})
			flag(s, busy)
		}},
		"forwarding, and it has an entity": {"invariant 14:", func(s *Shard) { s.entity("x"); forward(s) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShard()
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			tt.damage(s)
			err := s.Check()
			if err == nil || !strings.Contains(err.Error(), tt.invariant) {
				t.Errorf("got %v, want %s", err, tt.invariant)
			}
		})
	}
}
