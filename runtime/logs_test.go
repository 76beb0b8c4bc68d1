package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// logBook is a slog handler that keeps what is logged at Info and above, with all
// attributes.
type logBook struct {
	*logBookLines
	attrs []slog.Attr
}

type logBookLines struct {
	mu    sync.Mutex
	lines []logLine
}

type logLine struct {
	level slog.Level
	text  string
	attrs []slog.Attr
}

func newLogBook() logBook { return logBook{logBookLines: &logBookLines{}} }

func (j logBook) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (j logBook) WithGroup(string) slog.Handler                { return j }
func (j logBook) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logBook{j.logBookLines, slices.Concat(j.attrs, attrs)}
}

func (j logBook) Handle(_ context.Context, r slog.Record) error {
	l := logLine{r.Level, r.Message, slices.Clone(j.attrs)}
	r.Attrs(func(a slog.Attr) bool { l.attrs = append(l.attrs, a); return true })
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, l)
	return nil
}

// take empties the logBook.
func (j logBook) take() []logLine {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (l logLine) String() string { return fmt.Sprint(l.level, " ", l.text, " ", l.attrs) }

// requireOnce checks that no logLine has a key twice.
func requireOnce(t *testing.T, lines []logLine) {
	t.Helper()
	for _, l := range lines {
		var keys []string
		for _, a := range l.attrs {
			require.NotContains(t, keys, a.Key, l.String())
			keys = append(keys, a.Key)
		}
	}
}

// TestFewLinesWhenAllStop: nodes that stop together log a few lines each.
func TestFewLinesWhenAllStop(t *testing.T) {
	const perNode = 3
	j := newLogBook()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(j) }
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		c.start(n)
	}
	for i := range 50 {
		_, err := fixture.NewAccountClient(c.nodes["a"]).Ref(fmt.Sprint(i)).Add(testContext(t), 1)
		require.NoError(t, err)
	}
	requireOnce(t, j.take())
	var stops sync.WaitGroup
	for _, n := range names {
		stops.Go(func() { _ = c.nodes[n].Shutdown(testContext(t)) })
	}
	stops.Wait()
	lines := j.take()
	requireOnce(t, lines)
	var all strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&all, l)
	}
	require.LessOrEqual(t, len(lines), perNode*len(names), all.String())
}

// TestForeignBytesAreNotPrinted: a refused message is logged with its size, and without its bytes.
func TestForeignBytesAreNotPrinted(t *testing.T) {
	t.Parallel()
	stranger := transport.Peer{Address: transport.Address{Name: "stranger", Incarnation: 7}}
	long := strings.Repeat("x", 640_000)
	table, err := proto.Marshal(&wire.CoordinatorMessage{Format: 1, Body: &wire.CoordinatorMessage_Table{Table: &wire.CoordinatorTable{
		Part: 1, Parts: 1, Kinds: []*wire.CoordinatorRuns{{Kind: long, Skip: []uint32{1}}},
	}}})
	require.NoError(t, err)
	state := &gossip.State{Founder: stranger.Address}
	for i := range 5000 {
		state.Members = append(state.Members, membership.Member{Address: transport.Address{Name: "n", Incarnation: uint64(9000 - i)}, Status: membership.Up})
	}
	gossip, err := membership.Encode(message.Gossip{State: state})
	require.NoError(t, err)
	const placing = wire.ControlTopic_CONTROL_TOPIC_COORDINATOR
	for name, b := range map[string][]byte{
		"no message":      []byte(long),
		"another cluster": wire.SealControl(long, stranger, placing, nil),
		"a long name":     wire.SealControl("test", transport.Peer{Address: transport.Address{Name: long}}, placing, nil),
		"a long type":     wire.SealControl("test", stranger, placing, table),
		"no body":         wire.SealControl("test", stranger, placing, []byte(long)),
		"a large state":   wire.SealControl("test", stranger, wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, gossip),
	} {
		t.Run(name, func(t *testing.T) {
			j := newLogBook()
			c := emptyCluster(t)
			c.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(j) }
			a := c.start("a")
			link, err := c.broker.Transport().Open(testContext(t), transport.Options{
				Cluster: "test", Self: stranger.Address, Lanes: 4, OnState: func(transport.Channel, transport.State) {},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, link.Close()) }()
			j.take()
			require.NoError(t, link.Send(transport.Control, a.Peer(), 0, b))
			require.NoError(t, link.Send(0, a.Peer(), 0, b))
			var refused []logLine
			require.Eventually(t, func() bool {
				refused = append(refused, j.take()...)
				return len(refused) >= 2
			}, testPatience, testTick)
			for _, l := range refused {
				require.Equal(t, "foreign bytes refused", l.text)
				require.Less(t, len(l.String()), 400)
			}
		})
	}
}

// TestPanicsInALoopAreFewLines: a method that panics on every call does not fill the log.
func TestPanicsInALoopAreFewLines(t *testing.T) {
	const calls = 100
	j := newLogBook()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(j) }
	accounts := fixture.NewAccountClient(c.start("a"))
	j.take()
	for range calls {
		require.ErrorIs(t, accounts.Ref("bob").Panic(testContext(t), "again"), shard.ErrPanic)
	}
	lines := j.take()
	require.Len(t, lines, 7, "1, 2, 4, 8, 16, 32 and 64")
	require.Contains(t, lines[6].String(), "count=64")
}

// TestStopHooksThatFailAreFewLines: if the stop hooks of all entities of a node fail at once, the
// log has few lines.
func TestStopHooksThatFailAreFewLines(t *testing.T) {
	t.Parallel()
	const entities = 100
	for name, test := range map[string]struct{ id, line string }{
		"an error": {"fails when it stops", "OnPassivate failed"},
		"a panic":  {"panics when it stops", "passivation failed"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newLogBook()
			c := emptyCluster(t)
			c.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(j) }
			node := c.start("a")
			accounts := fixture.NewAccountClient(node)
			for i := range entities {
				_, err := accounts.Ref(fmt.Sprint(test.id, i)).Add(testContext(t), 1)
				require.NoError(t, err)
			}
			j.take()
			require.NoError(t, node.Shutdown(testContext(t)))
			var lines []logLine
			for _, l := range j.take() {
				if l.text == test.line {
					lines = append(lines, l)
				}
			}
			require.Len(t, lines, 7, "1, 2, 4, 8, 16, 32 and 64")
		})
	}
}
