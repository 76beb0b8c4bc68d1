package natstransport

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

// flooded returns a member's lane that has received messages.
func flooded(t *testing.T) *channel {
	t.Helper()
	return &channel{
		id: 0, subjects: newSubjects("c", transport.Address{Name: "a", Incarnation: 1}, 0), log: slog.New(slog.DiscardHandler),
		messages: make(chan *nats.Msg, queueLength), quit: make(chan struct{}), dry: make(chan struct{}),
	}
}

func (c *channel) arrive(name string, incarnation uint64, data string) {
	subject := fmt.Sprintf("sh.c.c.%s.%016x.a.%016x.0", name, identity.Mark(identity.Client, incarnation), 1)
	if name == "" {
		subject = "sh.c.m.a.0000000000000001.0"
	}
	c.messages <- &nats.Msg{Subject: subject, Data: []byte(data), Sub: &nats.Subscription{}}
}

// receive reads messages until n from senders other than evil have come. It returns these, and how
// many of evil's came before.
func (c *channel) receive(t *testing.T, n int) (others []string, evil int) {
	t.Helper()
	for len(others) < n {
		m, err := c.next()
		require.NoError(t, err)
		msg, ok := c.parse(m)
		require.True(t, ok)
		if msg.From.Name == "evil" {
			evil++
			continue
		}
		others = append(others, string(m.Data))
	}
	return others, evil
}

// TestFloodDelaysOnlyItsOwn: behind 60,000 messages of one name, those of other names are received
// in order, as if there were no flood. Only the flood's own messages are dropped.
func TestFloodDelaysOnlyItsOwn(t *testing.T) {
	c := flooded(t)
	for i := range 60_000 {
		c.arrive("evil", uint64(i), "evil")
	}
	for i := range 5 {
		c.arrive("web", 1, fmt.Sprint("web ", i))
		c.arrive("", 0, fmt.Sprint("member ", i))
	}
	others, evil := c.receive(t, 10)
	require.LessOrEqual(t, evil, 6, "one of the flood to each turn of the others")
	require.ElementsMatch(t, []string{"web 0", "web 1", "web 2", "web 3", "web 4", "member 0", "member 1", "member 2", "member 3", "member 4"}, others)
	for _, of := range []string{"web", "member"} {
		at := 0
		for _, got := range others {
			if got == fmt.Sprint(of, " ", at) {
				at++
			}
		}
		require.Equal(t, 5, at, "the order of %s in %v", of, others)
	}
	require.Equal(t, uint64(60_000-maxLineLength), c.fair.dropped.Load())
	require.Equal(t, uint64(60_000-maxLineLength), c.countDropped())

	left := 0
	for {
		if _, ok := c.pull(); !ok {
			break
		}
		left++
	}
	require.Equal(t, maxLineLength-evil, left)
	require.Empty(t, c.fair.turns)
	require.Empty(t, c.fair.lines)
}

// TestLinesKeepOrder: whatever arrives while messages are read, messages of one name are received
// in order, each once, and none is left.
func TestLinesKeepOrder(t *testing.T) {
	c := flooded(t)
	names := []string{"x", "y", "", "z"}
	sent, got := map[string]int{}, map[string]int{}
	read := func() bool {
		m, ok := c.pull()
		if !ok {
			return false
		}
		var n int
		var name string
		_, err := fmt.Sscanf(string(m.Data), "%d%s", &n, &name)
		require.NoError(t, err)
		require.Equal(t, got[name], n, name)
		got[name]++
		return true
	}
	for i := range 20_000 {
		name := names[i*i/7%len(names)]
		c.arrive(name, 1, fmt.Sprint(sent[name+"."], " ", name+"."))
		sent[name+"."]++
		if i%3 == 0 || i%1000 > 800 {
			read()
		}
	}
	for read() { //nolint:revive // reads all messages
	}
	require.Equal(t, sent, got)
}
