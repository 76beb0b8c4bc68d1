package shard_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// load calls Add on accounts until it is stopped, and remembers the answers.
type load struct {
	t       *testing.T
	stop    chan struct{}
	wg      sync.WaitGroup
	answers []atomic.Int64
	calls   atomic.Int64
	failed  atomic.Int64
	first   atomic.Pointer[error]
}

const loadEntities = 200

func startLoad(t *testing.T, callers ...shard.Caller) *load {
	l := &load{t: t, stop: make(chan struct{}), answers: make([]atomic.Int64, loadEntities)}
	for _, c := range callers {
		accounts := fixture.NewAccountClient(c)
		for g := range 4 {
			l.wg.Go(func() {
				for i := g; ; i++ {
					select {
					case <-l.stop:
						return
					default:
					}
					n := i % loadEntities
					if _, err := accounts.Ref(fmt.Sprint("account-", n)).Add(context.Background(), 1); err != nil {
						l.failed.Add(1)
						l.first.CompareAndSwap(nil, &err)
						continue
					}
					l.answers[n].Add(1)
					l.calls.Add(1)
				}
			})
		}
	}
	return l
}

// waitFor waits until n more calls were answered.
func (l *load) waitFor(n int64) {
	l.t.Helper()
	want := l.calls.Load() + n
	require.Eventually(l.t, func() bool { return l.calls.Load() >= want }, testPatience, testTick)
}

// end stops the load and checks every balance against the answers.
func (l *load) end(c shard.Caller) {
	l.t.Helper()
	close(l.stop)
	l.wg.Wait()
	if err := l.first.Load(); err != nil {
		l.t.Fatalf("%d calls failed, the first with: %v", l.failed.Load(), *err)
	}
	accounts := fixture.NewAccountClient(c)
	for n := range l.answers {
		got, err := accounts.Ref(fmt.Sprint("account-", n)).Get(testContext(l.t))
		require.NoError(l.t, err)
		require.Equal(l.t, l.answers[n].Load(), got, "account-%d", n)
	}
}

func TestJoinUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["a"])
	l.waitFor(1000)
	joined := c.start("c")
	require.Eventually(t, func() bool { return joined.Counters()["shard moved in"] > 80 }, testPatience, testTick)
	l.waitFor(1000)
	l.end(conn)
}

func TestLeaveUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	conn := c.dial("client")
	l := startLoad(t, conn, c.nodes["b"])
	l.waitFor(1000)
	for _, leaver := range []string{"a", "c"} { // a is the oldest, so the coordinator moves too
		require.NoError(t, c.nodes[leaver].Shutdown(testContext(t)))
		l.waitFor(1000)
	}
	l.end(conn)
}

func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	conn := c.dial("client")
	l := startLoad(t, conn)
	for round := range 2 {
		for _, name := range []string{"a", "b", "c"} {
			l.waitFor(500)
			require.NoError(t, c.nodes[name].Shutdown(testContext(t)), "round %d", round)
			c.start(name)
		}
	}
	l.waitFor(500)
	l.end(conn)
}

func TestOrderOfTellsOverMoves(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	conn := c.dial("client")
	const entities, each = 50, 200
	_, err := fixture.NewAccountClient(conn).Ref("e0").Get(testContext(t)) // all shards get a home
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, from := range []shard.Caller{conn, c.nodes["a"], c.nodes["b"]} {
		accounts := fixture.NewAccountClient(from)
		who := fmt.Sprintf("%p", from)
		wg.Go(func() {
			for i := range each {
				for e := range entities {
					if err := accounts.Tell(fmt.Sprint("e", e)).Note(context.Background(), fmt.Sprint(who, " ", i)); err != nil {
						t.Errorf("tell: %v", err)
						return
					}
				}
			}
		})
	}
	joined := c.start("c")
	require.Eventually(t, func() bool { return joined.Counters()["shard moved in"] > 80 }, testPatience, testTick)
	wg.Wait()
	accounts := fixture.NewAccountClient(conn)
	for e := range entities {
		var lines []string
		if !assert.Eventually(t, func() bool {
			var err error
			lines, err = accounts.Ref(fmt.Sprint("e", e)).Lines(testContext(t))
			return err == nil && len(lines) >= 3*each
		}, testPatience, testTick) {
			for name, n := range c.nodes {
				t.Log(name, n.Counters())
			}
			t.Fatalf("e%d has %d of %d lines, the last %q; the client counts %v", e, len(lines), 3*each, lines[max(0, len(lines)-3):], conn.Counters())
		}
		next := map[string]int{}
		for _, line := range lines {
			var who string
			var i int
			_, err := fmt.Sscan(line, &who, &i)
			require.NoError(t, err)
			require.Equal(t, next[who], i, "order of %s at e%d", who, e)
			next[who]++
		}
	}
}
