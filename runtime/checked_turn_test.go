package shard_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestReadsAreHeldToIt: under go test, a method marked //shard:read that changes the state fails,
// whether it runs on its caller's goroutine, queues, or is called from another node. Its change is
// dropped.
func TestReadsAreHeldToIt(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]shard.HostOption{"on the caller's goroutine": nil, "queued": {shard.Inline(false)}} {
		t.Run(name, func(t *testing.T) {
			v := newWallets(t)
			v.opts = opts
			v.start("a")
			v.start("b")
			for _, node := range v.nodes {
				_, err := ref(node, "x").Add(testContext(t), 5)
				require.NoError(t, err)
				total(t, node, "x", 5) // it is active, and its state is committed
				_, err = ref(node, "x").Peek(testContext(t), 1)
				require.ErrorContains(t, err, "Wallet/x: Peek, a method marked //shard:read, has changed the state")
				require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
				total(t, node, "x", 5)
				_, err = ref(node, "x").Add(testContext(t), -5)
				require.NoError(t, err)
				_, err = ref(node, "x").Peek(testContext(t), 0)
				require.NoError(t, err, "it has changed nothing")
			}
		})
	}
}

// TestReadsRecordNothing: an event recorded by a method marked //shard:read is dropped.
func TestReadsRecordNothing(t *testing.T) {
	v := newWallets(t)
	_, c := startSavings(v, "a")
	for range 2 { // first the account is passivated, then it is active
		_, err := c.Ref("x").Enter(testContext(t), 5, "")
		require.NoError(t, err)
		_, _, err = c.Ref("x").Statement(testContext(t))
		require.NoError(t, err)
		require.ErrorContains(t, c.Ref("x").Peek(testContext(t)), "a method marked //shard:read")
	}
	balance, entries, err := savings.NewAccountClient(v.nodes["a"]).Ref("x").Statement(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []int64{10, 2}, []int64{balance, entries})
}

// strays returns the log's lines about durable state that was changed outside turns.
func strays(book logBook) (all []string) {
	for _, l := range book.take() {
		if l.text == "durable state was changed outside the entity's turns" {
			all = append(all, l.String())
		}
	}
	return all
}

// TestLostChangesAreLogged: outside go test, turns are not checked, so a state change that no event
// records is visible at first. It is lost when the state is rebuilt from the events, and this is
// logged with the entity. From then on state and events agree, and nothing more is logged.
func TestLostChangesAreLogged(t *testing.T) {
	t.Parallel()
	v, book := newWallets(t), newLogBook()
	start := func(name string) *savings.AccountClient {
		cfg := v.config(name)
		cfg.Store, cfg.Logger = v.store.Client(), slog.New(book)
		n := shard.New(cfg)
		n.UncheckTurns()
		require.NoError(t, savings.HostAccount(n, func() *savings.Account { return &savings.Account{} }))
		require.NoError(t, n.Start(testContext(t)))
		v.nodes[name] = n
		return savings.NewAccountClient(n)
	}
	c := start("a")
	for _, id := range []string{"honest", "sly"} {
		for range 2 { // the first commit has the state, the second one the event alone
			_, err := c.Ref(id).Enter(testContext(t), 5, "")
			require.NoError(t, err)
		}
	}
	require.NoError(t, c.Ref("sly").Skim(testContext(t), 100))
	balance := func(id string, want int64) {
		t.Helper()
		got, _, err := c.Ref(id).Statement(testContext(t))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	balance("sly", 111)
	for i, want := range []int64{11, 12} {
		v.kill([]string{"a", "b"}[i])
		c = start([]string{"b", "c"}[i])
		require.Empty(t, strays(book))
		balance("honest", 10)
		require.Empty(t, strays(book))
		balance("sly", want)
		if i > 0 {
			require.Empty(t, strays(book), "its last event follows the state that it gave")
			continue
		}
		lines := strays(book)
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], "kind=Account")
		require.Contains(t, lines[0], "entity=sly")
		_, err := c.Ref("sly").Enter(testContext(t), 1, "")
		require.NoError(t, err)
	}
}

// TestStrayChangesAreLogged: a change by a method marked //shard:read is logged when the entity,
// which has no journal, is passivated or moves. Changes by other turns and hooks are not logged.
func TestStrayChangesAreLogged(t *testing.T) {
	v, book := newWallets(t), newLogBook()
	v.tune = func(cfg *shard.Config) { cfg.Logger = slog.New(book) }
	v.made = func(n *shard.Node) {
		n.UncheckTurns()
		require.NoError(t, bank.HostSaver(n, func() *bank.Saver { return &bank.Saver{} }))
	}
	a := v.start("a")
	for _, id := range []string{"honest", "sly"} {
		_, err := ref(a, id).Add(testContext(t), 5)
		require.NoError(t, err)
		_, err = saverOf(a, id).Add(testContext(t), 5) // its hooks change it
		require.NoError(t, err)
	}
	_, _, _, err := saverOf(a, "only seen").Get(testContext(t))
	require.NoError(t, err)
	_, err = ref(a, "sly").Peek(testContext(t), 1)
	require.NoError(t, err)
	require.NoError(t, a.Shutdown(testContext(t)))
	delete(v.nodes, "a")
	lines := strays(book)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "kind=Wallet")
	require.Contains(t, lines[0], "entity=sly")
}
