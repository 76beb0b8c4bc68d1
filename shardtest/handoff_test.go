package shardtest_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/ear"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// An earKind is a kind of type, such as durable, in TestHandoffTable.
type earKind struct {
	host func(*ear.Log, *shard.Node, ...shard.HostOption) error
	// call sends the entity a number. It returns how many numbers the entity remembers, 0 without
	// state, and its node.
	call func(*shard.Conn) func(context.Context, int) (count int, node string, err error)
	tell func(*shard.Conn) func(context.Context, int) error
}

func hostStateful(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
	return ear.HostStateful(n, func() *ear.Stateful { return &ear.Stateful{Node: n.Name(), Log: l} }, opts...)
}

func callStateful(c *shard.Conn) func(context.Context, int) (int, string, error) {
	return ear.NewStatefulClient(c).Ref("a").Hear
}

func tellStateful(c *shard.Conn) func(context.Context, int) error {
	return ear.NewStatefulClient(c).Tell("a").Hear
}

// earKinds are the columns of the table.
var earKinds = map[string]earKind{
	"with state": {hostStateful, callStateful, tellStateful},
	"remembered": {
		func(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
			return hostStateful(l, n, append(opts, shard.Remember(shard.RememberOptions{}))...)
		}, callStateful, tellStateful,
	},
	"without state": {
		func(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
			return ear.HostStateless(n, func() *ear.Stateless { return &ear.Stateless{Node: n.Name(), Log: l} }, opts...)
		},
		func(c *shard.Conn) func(context.Context, int) (int, string, error) {
			return func(ctx context.Context, i int) (int, string, error) {
				node, err := ear.NewStatelessClient(c).Ref("a").Hear(ctx, i)
				return 0, node, err
			}
		},
		func(c *shard.Conn) func(context.Context, int) error { return ear.NewStatelessClient(c).Tell("a").Hear },
	},
	"durable": {
		func(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
			return ear.HostDurable(n, func() *ear.Durable { return &ear.Durable{Node: n.Name(), Log: l} }, opts...)
		},
		func(c *shard.Conn) func(context.Context, int) (int, string, error) {
			return ear.NewDurableClient(c).Ref("a").Hear
		},
		func(c *shard.Conn) func(context.Context, int) error { return ear.NewDurableClient(c).Tell("a").Hear },
	},
	"singleton": {
		func(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
			return ear.HostSingle(n, func() *ear.Single { return &ear.Single{Node: n.Name(), Log: l} }, opts...)
		},
		func(c *shard.Conn) func(context.Context, int) (int, string, error) {
			return ear.NewSingleClient(c).Ref().Hear
		},
		func(c *shard.Conn) func(context.Context, int) error { return ear.NewSingleClient(c).Tell().Hear },
	},
	"pool": {
		func(l *ear.Log, n *shard.Node, opts ...shard.HostOption) error {
			return ear.HostPool(n, func() *ear.Pool { return &ear.Pool{Node: n.Name(), Log: l} }, append(opts, shard.PoolSize(1, 1))...)
		},
		func(c *shard.Conn) func(context.Context, int) (int, string, error) {
			return ear.NewPoolClient(c).Any().Hear
		},
		func(c *shard.Conn) func(context.Context, int) error { return ear.NewPoolClient(c).Tell().Hear },
	},
}

// handoffModes are the rows of the table.
var handoffModes = map[string]shard.HandoffMode{
	"HandoffOrdered": shard.HandoffOrdered, "HandoffServing": shard.HandoffServing, "HandoffDropCalls": shard.HandoffDropCalls,
	"HandoffUnordered": shard.HandoffUnordered, "HandoffRefusing": shard.HandoffRefusing, "HandoffDropState": shard.HandoffDropState,
}

// handoffTable returns the cells of the table of modes and kinds in the guide, by "mode/kind".
func handoffTable(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/guide/moving.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| mode |")
	require.True(t, ok, "the guide has no table of modes")
	table, _, _ = strings.Cut("| mode |"+table, "\n\n")
	cells := func(line string) (all []string) {
		for cell := range strings.SplitSeq(strings.Trim(line, "| "), "|") {
			all = append(all, strings.TrimSpace(cell))
		}
		return all
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns, found := cells(lines[0]), map[string]string{}
	for _, line := range lines[2:] {
		row := cells(line)
		mode, _, _ := strings.Cut(strings.Trim(row[0], "`"), "`")
		for i, kind := range columns[2:] {
			found[mode+"/"+kind] = row[2+i]
		}
	}
	return found
}

// TestHandoffTable: each kind of type moves in each mode as the table of the guide says. Each cell is a
// subtest.
func TestHandoffTable(t *testing.T) {
	table := handoffTable(t)
	require.Len(t, table, len(handoffModes)*len(earKinds))
	for _, mode := range slices.Sorted(maps.Keys(handoffModes)) {
		for _, kind := range slices.Sorted(maps.Keys(earKinds)) {
			cell, ok := table[mode+"/"+kind]
			t.Run(mode+"/"+kind, func(t *testing.T) {
				require.True(t, ok, "the guide's table has no such cell")
				t.Parallel()
				testHandoff(t, earKinds[kind], handoffModes[mode], strings.Split(cell, ", "))
			})
		}
	}
}

// testHandoff moves an entity of a kind while it gets calls and tells, and compares the results
// with the words of a cell.
func testHandoff(t *testing.T, k earKind, mode shard.HandoffMode, words []string) {
	says := func(word string) bool { return slices.Contains(words, word) }
	require.Subset(t, []string{"refused", "state", "fresh", "ordered", "unordered", "lossy", "active"}, words)
	log := &ear.Log{}
	host := func(n *shard.Node) error { return k.host(log, n, shard.Handoff(mode)) }
	if says("refused") {
		require.Error(t, host(shard.New(shard.Config{Cluster: "c", Name: "n1"})))
		require.Len(t, words, 1)
		return
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		call, tell := k.call(c.Client()), k.tell(c.Client())
		_, old, err := call(t.Context(), 0)
		require.NoError(t, err)
		const calls, tells = 100, 1500 // calls are numbered from 1, tells from 1001
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range calls {
				if _, _, err := call(t.Context(), 1+i); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				time.Sleep(time.Millisecond)
			}
		})
		wg.Go(func() {
			for i := range tells {
				if err := tell(t.Context(), 1001+i); err != nil {
					t.Errorf("tell %d: %v", i, err)
				}
				time.Sleep(200 * time.Microsecond)
			}
		})
		c.Advance(20 * time.Millisecond)
		c.Shutdown(old)
		wg.Wait()
		c.Settle()
		count, next, err := call(t.Context(), 1+calls)
		require.NoError(t, err)
		require.NotEqual(t, old, next)

		heard := log.Heard()
		all := 2 + calls + tells
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(heard))), len(heard), "some ran twice")
		told := slices.DeleteFunc(slices.Clone(heard), func(n int) bool { return n < 1000 })
		require.Equal(t, all-tells, len(heard)-len(told), "calls are lost")
		if !says("lossy") { // otherwise tells may be lost, but need not
			require.Len(t, heard, all)
		}
		if says("ordered") {
			require.IsIncreasing(t, told)
		}
		if says("state") {
			require.Equal(t, len(heard), count)
		}
		if says("fresh") {
			require.Less(t, count, len(heard))
		}
		require.Equal(t, !says("state") && !says("fresh"), count == 0, "it has state or not")

		c.Start(old)
		c.Settle()
		before := log.Activations(old)
		c.Shutdown(next)
		c.Settle()
		require.Equal(t, says("active"), log.Activations(old) > before, "it is active without a call")
	}, shardtest.Host(host), shardtest.Nodes(2), shardtest.Latency(0, 4*time.Millisecond))
}
