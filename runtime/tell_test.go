package shard_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
)

// TestTellsAndCallsInOrder: one sender's tells and calls to an account run once and in order, over
// kept references. Meanwhile other senders do the same, the account is passivated, and its shard
// moves away and comes back.
func TestTellsAndCallsInOrder(t *testing.T) {
	t.Parallel()
	const senders, before = 4, 300
	c := emptyCluster(t)
	a := c.start("a")
	client := fixture.NewAccountClient(a)
	ids := []string{"x", "y", "z"}
	settle(t, client, ids...)
	again := func(f func() error) error {
		for {
			if err := f(); !errors.Is(err, shard.ErrOverloaded) {
				return err
			}
			runtime.Gosched()
		}
	}
	under := make(chan struct{}, senders) // each sender is under way
	var moved atomic.Bool                 // the shards have moved away and come back
	var sent [senders]int
	var wg sync.WaitGroup
	failed := make(chan error, senders)
	for s := range senders {
		refs, tells := map[string]fixture.AccountRef{}, map[string]fixture.AccountTell{}
		for _, id := range ids {
			refs[id], tells[id] = client.Ref(id), client.Tell(id)
		}
		wg.Go(func() {
			for i := 0; i <= before || !moved.Load(); i++ {
				if i == before {
					under <- struct{}{}
				}
				sent[s] = i + 1
				for _, id := range ids {
					line := fmt.Sprint(s, " ", i)
					err := again(func() error {
						if i%3 == s%3 {
							return refs[id].Note(testContext(t), line)
						}
						return tells[id].Note(testContext(t), line)
					})
					if i%50 == 0 && err == nil {
						err = again(func() error { return tells[id].Rest(testContext(t)) })
					}
					if err != nil {
						failed <- fmt.Errorf("%s to %s: %w", line, id, err)
						select {
						case under <- struct{}{}: // do not block when enough senders are under way
						default:
						}
						return
					}
				}
			}
		})
	}
	for range senders {
		<-under
	}
	b := c.start("b")
	require.Eventually(t, func() bool { return b.Counters()["shard moved in"] > 100 }, testPatience, testTick)
	require.NoError(t, b.Shutdown(testContext(t)))
	moved.Store(true)
	wg.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	for _, id := range ids {
		log, err := client.Ref(id).Lines(testContext(t))
		require.NoError(t, err)
		next := make([]int, senders)
		for _, line := range log {
			var s, i int
			_, err := fmt.Sscan(line, &s, &i)
			require.NoError(t, err)
			require.Equal(t, next[s], i, "the next line of sender %d in %s", s, id)
			next[s]++
		}
		for s, n := range next {
			require.Equal(t, sent[s], n, "lines of sender %d in %s", s, id)
		}
	}
}

// TestTellsThatFail: the error or panic of a told method goes only to the supervisor, and the
// account goes on.
func TestTellsThatFail(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen []string
	decide := func(err error) shard.SupervisorAction {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, err.Error())
		return shard.ActionResume
	}
	eachWay(t, nil, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		mu.Lock()
		seen = nil
		mu.Unlock()
		_, err := accounts.Ref("bob").Add(testContext(t), 7)
		require.NoError(t, err)
		tell := accounts.Tell("bob")
		require.NoError(t, tell.Fail(testContext(t)))
		require.NoError(t, tell.Panic(testContext(t), "at the disco"))
		require.NoError(t, tell.Exit(testContext(t)))
		require.NoError(t, tell.Add(testContext(t), 1))
		got, err := accounts.Ref("bob").Get(testContext(t))
		require.NoError(t, err)
		require.EqualValues(t, 9, got, "7, what Fail did before it failed, and 1")
		require.Equal(t, []string{"fresh"}, c.probe.Hooks("bob"))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{
			"fail bob: too poor",
			"Account/bob.Panic: panic: at the disco",
			"Account/bob.Exit: panic: runtime.Goexit",
		}, seen)
	}, shard.Supervise(decide))
}

// TestTellsBehindOneThatIsDecoded: a tell whose decoder takes long does not delay the tells to
// other entities. Each tell keeps its own arguments meanwhile.
func TestTellsBehindOneThatIsDecoded(t *testing.T) {
	const accounts, rounds = 300, 20
	c := emptyCluster(t)
	client := fixture.NewAccountClient(c.start("a"))
	id := func(n int) string { return fmt.Sprint("account ", n) }
	for n := range accounts {
		settle(t, client, id(n))
	}
	settle(t, client, "waits")
	entered, release := make(chan struct{}), make(chan struct{})
	wait := func() {
		entered <- struct{}{}
		<-release
	}
	fixture.SlowLetter.Store(&wait)
	read := sync.OnceFunc(func() {
		fixture.SlowLetter.Store(nil)
		close(release)
	})
	t.Cleanup(read)
	letter := func(round, n int) fixture.Letter {
		return fixture.Letter(strings.Repeat(fmt.Sprint(round, " for ", id(n), "; "), 1+round%7))
	}
	slow := fixture.Letter("slow " + strings.Repeat("and long ", 20))
	for round := range rounds {
		for n := range accounts {
			if round == 2 && n == accounts/2 { // among the other tells
				require.NoError(t, client.Tell("waits").Read(testContext(t), slow))
			}
			require.NoError(t, client.Tell(id(n)).Read(testContext(t), letter(round, n)))
		}
		if round == 2 {
			<-entered
		}
	}
	for n := range accounts {
		log, err := client.Ref(id(n)).Lines(testContext(t))
		require.NoError(t, err)
		require.Len(t, log, rounds)
		for round, got := range log {
			require.Equal(t, string(letter(round, n)), got)
		}
	}
	read()
	log, err := client.Ref("waits").Lines(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{string(slow)}, log)
}

// TestTellsBeforeClose: the tells of a connection arrive before it closes, even if it does not know
// their homes yet, and while shards move.
func TestTellsBeforeClose(t *testing.T) {
	t.Parallel()
	const rounds, each = 10, 100
	c := newCluster(t, "a", "b")
	id := func(n int) string { return fmt.Sprint("account ", n) }
	var moves sync.WaitGroup
	for i := range rounds {
		switch i { // tells sent meanwhile may come back
		case 2:
			c.start("c")
		case 5:
			moves.Go(func() { assert.NoError(t, c.nodes["b"].Shutdown(testContext(t))) })
		}
		conn, err := shard.Dial(testContext(t), c.config(fmt.Sprint("client-", i)))
		require.NoError(t, err)
		client := fixture.NewAccountClient(conn)
		for n := range each {
			require.NoError(t, client.Tell(id(n)).Add(testContext(t), 1))
		}
		require.NoError(t, conn.Close())
		require.Zero(t, conn.Counters()["tell lost"])
	}
	moves.Wait()
	accounts := fixture.NewAccountClient(c.nodes["a"])
	for n := range each {
		require.Eventually(t, func() bool {
			got, err := accounts.Ref(id(n)).Get(testContext(t))
			return err == nil && got == rounds
		}, testPatience, testTick, id(n))
	}
}

// TestTellsWithoutHomeBeforeClose: the error of Conn.Close counts the tells that could not be sent.
// A node counts them in its counters.
func TestTellsWithoutHomeBeforeClose(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	caller := shard.New(c.config("caller")) // hosts nothing
	require.NoError(t, caller.Start(testContext(t)))
	t.Cleanup(func() { _ = caller.Close() })
	conn, err := shard.Dial(testContext(t), c.config("client"))
	require.NoError(t, err)
	require.NoError(t, fixture.NewAccountClient(conn).Tell("x").Add(testContext(t), 1))
	err = conn.Close()
	require.ErrorIs(t, err, shard.ErrClosed)
	require.ErrorContains(t, err, "closed before 1 tells were delivered: 1 did not run (not executed: ")
	require.Equal(t, err, conn.Close(), "again")
	require.EqualValues(t, 1, conn.Counters()["tell lost"])

	require.NoError(t, fixture.NewAccountClient(caller).Tell("x").Add(testContext(t), 1))
	require.NoError(t, caller.Shutdown(testContext(t)), "no other member can become a home")
	require.EqualValues(t, 1, caller.Counters()["tell lost"])
}

// TestTellsBeforeShutdown: a node that leaves waits until its tells have a home.
func TestTellsBeforeShutdown(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	start := func(name string) *shard.Node {
		n := shard.New(c.config(name))
		require.NoError(t, fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }))
		require.NoError(t, n.Start(testContext(t)))
		c.nodes[name] = n
		return n
	}
	start("a")
	b := start("b")
	require.NoError(t, fixture.NewAccountClient(b).Tell("x").Add(testContext(t), 1)) // no other node hosts accounts
	left := make(chan error, 1)
	go func() { left <- b.Shutdown(testContext(t)) }()
	require.Eventually(t, func() bool { return b.Cluster().Status == membership.Leaving }, testPatience, testTick)
	accounts := fixture.NewAccountClient(c.start("c"))
	require.NoError(t, receive(t, left, "b leaves"))
	require.Zero(t, b.Counters()["tell lost"])
	require.Eventually(t, func() bool {
		got, err := accounts.Ref("x").Get(testContext(t))
		return err == nil && got == 1
	}, testPatience, testTick)
}

// TestTellsFillAMailbox: a tell to a full mailbox fails if its sender is in the same process. From
// another process, the tell is dropped and counted.
func TestTellsFillAMailbox(t *testing.T) {
	t.Parallel()
	tune := func(cfg *shard.Config) { cfg.Limits.MailboxCalls = 2 }
	eachWay(t, tune, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		tell := accounts.Tell("bob")
		require.NoError(t, tell.Add(testContext(t), 1))
		require.NoError(t, tell.Add(testContext(t), 1))
		c.waiting(2)
		err := tell.Add(testContext(t), 1)
		if strings.HasSuffix(t.Name(), "/far") {
			require.NoError(t, err)
			require.Eventually(t, func() bool { return c.nodes["a"].Counters()["refused"] == 1 }, testPatience, testTick)
		} else {
			requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
			require.ErrorContains(t, err, "call Account/bob.Add: overloaded: its mailbox at a already holds 2 calls (retry later, or raise its MaxMailboxCalls)")
			require.EqualValues(t, 1, c.nodes["a"].Counters()["refused"])
			require.Zero(t, c.nodes["a"].Counters()["tell lost"], "the sender knows")
		}
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		require.Eventually(t, func() bool {
			got, err := accounts.Ref("bob").Get(testContext(t))
			return err == nil && got == 2
		}, testPatience, testTick)
		require.NoError(t, tell.Add(testContext(t), 1), "there is room again")
	})
}
