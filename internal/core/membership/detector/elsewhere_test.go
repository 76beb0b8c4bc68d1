package detector

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// TestElsewhere: a member is lost if its server has answered for long enough, and lately, that nobody
// listens. If somebody listens, the time begins again. Late answers do not count, nor those of other
// servers.
func TestElsewhere(t *testing.T) {
	const long, interval = time.Second, 200 * time.Millisecond
	type answer struct {
		asked, came int // ms
		listens     bool
	}
	gone := func(from, to int) (all []answer) {
		for at := from; at <= to; at += 200 {
			all = append(all, answer{at, at + 10, false})
		}
		return all
	}
	for name, c := range map[string]struct {
		answers []answer
		at      int
		lost    bool
	}{
		"long enough":             {gone(0, 1200), 1210, true},
		"not long enough":         {gone(0, 1000), 1210, false},
		"too few":                 {[]answer{{0, 10, false}, {1200, 1210, false}}, 1210, false},
		"not lately":              {gone(0, 1200), 1900, false},
		"first answer late":       {append([]answer{{0, 190, false}}, gone(200, 1000)...), 1190, false},
		"listened meanwhile":      {append(append(gone(0, 600), answer{700, 710, true}), gone(800, 1400)...), 1410, false},
		"listened, came late":     {append(gone(0, 1200), answer{700, 1205, true}), 1210, true},
		"lost again":              {append(append(gone(0, 600), answer{700, 710, true}), gone(800, 2000)...), 2010, true},
		"late answer is not lost": {append([]answer{{700, 710, true}, {600, 720, false}}, gone(800, 1800)...), 1810, false},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1000, 0)
			at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
			n := core.NewBase(core.Config{})
			n.Now = begin
			member := transport.Address{Name: "a", Incarnation: 1}
			server, other := message.MarkOf("one"), message.MarkOf("two")
			var e Elsewhere
			e.Ask(&n, member, server, interval)
			require.Equal(t, []core.Question{{Peer: member, Server: server, At: begin}}, n.Out.Ask)
			for _, a := range c.answers {
				e.Answered(core.Asked{Question: core.Question{Server: other, At: at(a.asked)}, Listens: !a.listens}, at(a.came))
				e.Answered(core.Asked{Question: core.Question{Server: server, At: at(a.asked)}, Listens: a.listens}, at(a.came))
			}
			require.Equal(t, c.lost, e.Lost(server, long, interval, at(c.at)))
			require.False(t, e.Lost(other, long, interval, at(c.at)))
			e.Ask(&n, member, other, interval)
			require.False(t, e.Lost(server, long, interval, at(c.at)), "it is at another server now")
		})
	}
}
