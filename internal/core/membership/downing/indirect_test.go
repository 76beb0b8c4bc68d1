package downing

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/transport"
)

// TestUnsettled: a picked side may be acted on after it has been the same for sideSettles, even if
// it was picked only later. A side that keeps changing may be acted on after MaxUnsettled. A side
// that was not picked may be acted on at once.
func TestUnsettled(t *testing.T) {
	a, b, c := transport.Address{Name: "a"}, transport.Address{Name: "b"}, transport.Address{Name: "c"}
	one, other := []transport.Address{a, b}, []transport.Address{a, c}
	type look struct {
		at     time.Duration
		side   []transport.Address
		picked bool
		waits  bool
	}
	ms := time.Millisecond
	changing := []look{}
	for at := time.Duration(0); at < lease.MaxUnsettled; at += 500 * ms {
		changing = append(changing, look{at, one, true, true}, look{at + 250*ms, other, true, true})
	}
	for name, looks := range map[string][]look{
		"same":       {{0, one, true, true}, {999 * ms, one, true, true}, {1000 * ms, one, true, false}},
		"changed":    {{0, one, true, true}, {999 * ms, other, true, true}, {1998 * ms, other, true, true}, {1999 * ms, other, true, false}},
		"changing":   append(changing, look{lease.MaxUnsettled, one, true, false}),
		"not picked": {{0, one, false, false}, {10 * ms, other, false, false}},
		"before":     {{0, one, false, false}, {1000 * ms, one, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			i := &Indirect{Node: core.NewNode(core.Config{Self: a}.WithDefaults())}
			i.Gossip = &gossip.State{}
			begin := time.Unix(1000, 0)
			for _, l := range looks {
				i.Now = begin.Add(l.at)
				if got := i.unsettled(l.side, l.picked); got != l.waits {
					t.Errorf("after %v: got unsettled %v, want %v", l.at, got, l.waits)
				}
			}
		})
	}
}
