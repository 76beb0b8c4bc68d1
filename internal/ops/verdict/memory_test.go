package verdict

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// A life is a process that judges its own health once a second.
type life struct {
	m    Memory
	view operator.View
	now  time.Time
	self Process
}

func newLife() *life { return &life{view: up(web1, web2), now: start, self: Process{Name: "web-1"}} }

// oldLife returns a life whose first look was long ago.
func oldLife(others ...transport.Address) *life {
	l := newLife()
	l.view, l.now = up(append(others, web1, web2)...), start.Add(-time.Hour)
	l.look(0)
	l.now = start
	return l
}

// look advances the time by pass, judges, and returns the texts of the findings.
func (l *life) look(pass time.Duration, downed ...string) (texts []string) {
	l.now = l.now.Add(pass)
	self := l.self
	all, _, _ := l.m.Judge(Snapshot{Now: l.now, View: l.view, Self: &self, Downed: downed})
	for _, f := range all {
		texts = append(texts, f.Text)
	}
	return texts
}

// lose takes the second member away.
func (l *life) lose() { l.view = up(web1) }

// TestMissing: a lost member is missing for an hour, or until it comes back or a new member comes.
// A member that has left in order is not missing.
func TestMissing(t *testing.T) {
	l := oldLife()
	l.lose()
	require.Empty(t, l.look(time.Second), "it has left in order")
	l = oldLife()
	l.lose()
	missing := []string{"web-2 is missing: it was lost at 1970-01-12T13:46:41Z and has not come back"}
	require.Equal(t, missing, l.look(time.Second, "web-2"))
	l.view.Members = append(l.view.Members, operator.Member{Address: transport.Address{Name: "web-2", Incarnation: 9}, Status: membership.Joining, Reachable: true})
	require.Contains(t, l.look(time.Second), missing[0], "it is not up yet")
	l.view = up(web1, web2)
	require.Empty(t, l.look(time.Second), "it is back")
	l.lose()
	require.Len(t, l.look(time.Second, "web-2"), 1)
	l.view = up(web1, transport.Address{Name: "web-7", Incarnation: 7})
	require.Empty(t, l.look(time.Second), "another has taken its place")
	l.lose()
	require.Len(t, l.look(time.Second, "web-7"), 1)
	require.Empty(t, l.look(missingFor))
}

// TestMissingTwice: if two members are lost together, one new member replaces only one of them.
func TestMissingTwice(t *testing.T) {
	web3 := transport.Address{Name: "web-3", Incarnation: 3}
	l := oldLife(web3)
	l.lose()
	require.Len(t, l.look(time.Second, "web-2", "web-3"), 2)
	l.view = up(web1, web3)
	require.Len(t, l.look(time.Second), 1)
}

// TestReplaced: a member that replaces a lost member may already be up when the loss is found, but
// not long before. It stays the replacement if another member leaves in order afterwards. If the
// lost member comes back and is lost again, it does not replace that member a second time.
func TestReplaced(t *testing.T) {
	web3, web7 := transport.Address{Name: "web-3", Incarnation: 3}, transport.Address{Name: "web-7", Incarnation: 7}
	l := oldLife(web3)
	l.view = up(web1, web3, web7)
	require.Empty(t, l.look(time.Second, "web-2"), "web-7 came at the same time")
	l.view = up(web1, web7)
	require.Empty(t, l.look(time.Second), "web-3 has left in order")
	l.view = up(web1, web2, web7)
	require.Empty(t, l.look(time.Minute))
	l.view = up(web1, web7)
	require.Len(t, l.look(time.Second, "web-2"), 1, "web-7 has taken a place already")

	l = oldLife(web3)
	l.view = up(web1, web2, web3, web7)
	l.look(time.Second)
	l.view = up(web1, web3, web7)
	require.Len(t, l.look(time.Second, "web-2"), 1, "web-7 came before, and may be an addition")
}

// TestCrashLoop: a member that is lost three times in ten minutes is in a crash loop until it has
// been up for a minute.
func TestCrashLoop(t *testing.T) {
	l := newLife()
	l.look(0)
	for i := range 3 {
		l.lose()
		l.look(time.Second, "web-2")
		l.view = up(web1, web2)
		if found := l.look(time.Second); i < 2 {
			require.Empty(t, found)
		} else {
			require.Equal(t, []string{"web-2 was lost 3 times within 10m0s"}, found)
		}
	}
	require.Len(t, l.look(loopCalm-time.Second), 1)
	require.Empty(t, l.look(time.Second))
}

// TestHung: a turn hangs if it lasts far longer than turns of its type did, and it is a fault if calls
// wait behind it.
func TestHung(t *testing.T) {
	l := newLife()
	stuck := Turn{Turn: operator.Turn{EntityID: operator.EntityID{Kind: "Cart", ID: "ann"}, Method: "Add", From: "client web"}, Number: 7, Waiting: 3}
	l.self.Turns = []Turn{stuck}
	require.Empty(t, l.look(0))
	require.Empty(t, l.look(turnPatience-time.Second))
	require.Equal(t, []string{"Cart/ann: a turn of Add, called by client web, has run for at least 5s, and calls wait behind it: 3"}, l.look(time.Second))
	f := l.m.findings[operator.Finding{Check: Turns, Node: "web-1", Subject: "Cart/ann"}.Key()]
	require.Equal(t, operator.Fault, f.Severity)
	require.Equal(t, start, f.Since)
	l.self.Turns[0].Waiting = 0
	l.look(0)
	require.Equal(t, operator.Note, l.m.findings[f.Key()].Severity, "nobody waits")
	l.self.Turns[0].Number++
	require.Empty(t, l.look(time.Second), "it is another turn; the one before took 6s, which now is usual")
	require.Empty(t, l.look(23*time.Second))
	require.Len(t, l.look(time.Second), 1)
	l.self.Turns = nil
	require.Empty(t, l.look(2*time.Hour), "what took so long is not usual")
	require.Equal(t, 6*time.Second, l.m.usual["Cart"])

	l = newLife()
	stuck.Since, stuck.ID = start.Add(-time.Hour), "a\nb"
	l.self.Turns = []Turn{stuck}
	found := l.look(0)
	require.Len(t, found, 1, "its begin is known")
	require.Contains(t, found[0], `Cart/"a\nb": a turn of`)
}

// TestGrowth: counts that grow are findings until they have stood still for growthLasts.
func TestGrowth(t *testing.T) {
	l := newLife()
	l.self.Overloaded, l.self.OverQuota = 100, 7
	require.Empty(t, l.look(0), "it was so before")
	l.self.Overloaded, l.self.OverQuota = 103, 9
	require.Equal(t, []string{
		"calls were refused with ErrOverloaded within the last 5s: 3",
		"messages and sessions over the limits of one client name were refused within the last 5s: 2",
	}, l.look(time.Second))
	require.Len(t, l.look(growthLasts-1), 2)
	require.Empty(t, l.look(1))
	l.self.Overloaded++
	require.Equal(t, []string{"calls were refused with ErrOverloaded within the last 5s: 1"}, l.look(time.Hour))
}

// TestBegunAndEnded: each finding begins once and ends once, and keeps its time.
func TestBegunAndEnded(t *testing.T) {
	var m Memory
	s := Snapshot{Now: start, View: up(web1, web2), Self: &Process{Name: "web-1", Away: time.Second}}
	all, begun, ended := m.Judge(s)
	require.Equal(t, all, begun)
	require.Empty(t, ended)
	s.Now, s.Self.Away = start.Add(time.Second), 2*time.Second
	all, begun, ended = m.Judge(s)
	require.Empty(t, begun)
	require.Empty(t, ended)
	require.Equal(t, start, all[0].Since)
	s.Self.Away = 0
	all, _, ended = m.Judge(s)
	require.Empty(t, all)
	require.Len(t, ended, 1)
}

// TestMemoryIsBounded: many members, types and turns do not fill the memory.
func TestMemoryIsBounded(t *testing.T) {
	l := newLife()
	var lost []string
	for i := range 2 * maxTracked {
		l.self.Turns = append(l.self.Turns, Turn{Turn: operator.Turn{EntityID: operator.EntityID{Kind: fmt.Sprint(i), ID: "x"}}})
		lost = append(lost, fmt.Sprint("lost-", i))
	}
	l.look(0, lost...)
	require.Len(t, l.m.turns, maxTracked)
	l.self.Turns = nil
	l.look(time.Second)
	require.LessOrEqual(t, len(l.m.lost), maxTracked)
	require.LessOrEqual(t, len(l.m.usual), maxTracked)
	require.Empty(t, l.m.turns)
}
