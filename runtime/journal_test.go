package shard_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
)

// startSavings starts a node that hosts accounts, over the store of v.
func startSavings(v *wallets, name string) (*shard.Node, *savings.AccountClient) {
	v.t.Helper()
	cfg := v.config(name)
	cfg.Store = v.store.Client()
	n := shard.New(cfg)
	require.NoError(v.t, savings.HostAccount(n, func() *savings.Account { return &savings.Account{} }))
	require.NoError(v.t, savings.HostBasket(n, func() *savings.Basket { return &savings.Basket{} }))
	require.NoError(v.t, n.Start(testContext(v.t)))
	v.nodes[name] = n
	return n, savings.NewAccountClient(n)
}

// A projection is a state that is built from events only.
type projection struct {
	balance map[string]int64
	last    map[string]uint64 // version, by entity
	seen    map[string]bool   // by shard and number
	at      shard.Position
}

func newProjection() *projection {
	return &projection{balance: map[string]int64{}, last: map[string]uint64{}, seen: map[string]bool{}}
}

// follow reads events until the projection has n events.
func (p *projection) follow(t *testing.T, c *savings.AccountClient, n int, opts ...shard.EventsOption) {
	t.Helper()
	for e, err := range c.Events(testContext(t), p.at, opts...) {
		require.NoError(t, err)
		name := fmt.Sprint(e.Shard, "/", e.Number)
		require.False(t, p.seen[name], "event %s comes twice", name)
		require.GreaterOrEqual(t, e.Version, p.last[e.Entity], "events of %s are out of order", e.Entity)
		p.seen[name], p.last[e.Entity], p.at = true, e.Version, e.Position
		p.balance[e.Entity] += e.Event.Amount
		if len(p.seen) >= n {
			return
		}
	}
}

// TestEventsAreFollowed: a projection gets each event of committed turns once, over crashes of
// homes and its own pauses, and ends with the state of the entities.
func TestEventsAreFollowed(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	want := map[string]int64{}
	enter := func(c *savings.AccountClient, i int) {
		id := fmt.Sprint("account-", i%7)
		_, err := c.Ref(id).Enter(ctx, int64(i), "x")
		require.NoError(t, err)
		want[id] += int64(i)
	}
	for i := range 100 {
		enter(c, i)
	}
	_, err := c.Ref("account-0").Enter(ctx, -1_000_000, "too much")
	require.ErrorIs(t, err, savings.ErrNotCovered)
	p := newProjection()
	p.follow(t, c, 60)
	v.kill("a")
	_, c = startSavings(v, "b")
	for i := range 100 {
		enter(c, i)
	}
	p.follow(t, c, 200)
	require.True(t, maps.Equal(want, p.balance), "%v, want %v", p.balance, want)
	for id, balance := range want {
		got, entries, err := c.Ref(id).Statement(ctx)
		require.NoError(t, err)
		require.Equal(t, balance, got)
		require.NotZero(t, entries)
	}
}

// TestNamedFollowerGoesOn: the position of a named follower is in the store.
func TestNamedFollowerGoesOn(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	enter := func(n int) {
		for range n {
			_, err := c.Ref("a").Enter(ctx, 1, "")
			require.NoError(t, err)
		}
	}
	read := func(n int) (numbers []uint64) {
		for e, err := range c.Events(ctx, "", shard.FollowerName("billing")) {
			require.NoError(t, err)
			numbers = append(numbers, e.Number)
			if len(numbers) == n {
				return numbers
			}
		}
		return nil
	}
	enter(5)
	require.Equal(t, []uint64{1, 2, 3}, read(3))
	require.Equal(t, []uint64{3, 4, 5}, read(3), "the event at which the loop broke comes again, and none before it")
	_, err := func() (shard.Position, error) {
		for _, err := range c.Events(ctx, "1.Other.AAAA") {
			return "", err
		}
		return "", nil
	}()
	require.ErrorIs(t, err, shard.ErrPosition)
}

// TestBadFollowerNames: a loop with an invalid or empty name fails at once, because no position
// could be kept for it.
func TestBadFollowerNames(t *testing.T) {
	v := newWallets(t)
	_, c := startSavings(v, "a")
	for name, want := range map[string]string{
		"":                      "events of Account: follower name is empty: want 1 to 64 of",
		"a.b":                   `events of Account: follower name "a.b" holds '.': want only`,
		"a/b":                   `events of Account: follower name "a/b" holds '/': want only`,
		strings.Repeat("n", 65): "has 65 bytes: want at most 64",
	} {
		var got error
		for _, got = range c.Events(testContext(t), "", shard.FollowerName(name)) {
			break
		}
		require.ErrorContains(t, got, want)
		require.ErrorContains(t, got, "shard.FollowerName")
	}
}

// TestEventsWithInterceptors: a process with interceptors follows events like any other process.
// Its interceptors are not called.
func TestEventsWithInterceptors(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	for i := range 5 {
		_, err := c.Ref("a").Enter(testContext(t), int64(i), "")
		require.NoError(t, err)
	}
	cfg := v.config("b")
	cfg.Store = v.store.Client()
	cfg.Interceptors = []shard.Interceptor{guarded} // refuses calls
	n := shard.New(cfg)
	require.NoError(t, n.Start(testContext(t)))
	v.nodes["b"] = n
	cfg.Name = "client"
	conn, err := shard.Dial(testContext(t), cfg)
	require.NoError(t, err)
	defer conn.Close()
	for name, caller := range map[string]shard.Caller{"node": n, "client": conn} {
		accounts := savings.NewAccountClient(caller)
		_, err := accounts.Ref("a").Enter(testContext(t), 1, "")
		require.ErrorIs(t, err, shard.ErrRefused)
		newProjection().follow(t, accounts, 5)
		named := newProjection()
		named.follow(t, accounts, 5, shard.FollowerName(name))
		require.EqualValues(t, 10, named.balance["a"])
	}
}

// TestStateWithoutAnEventIsRefused: a turn that changes state without recording an event fails, and
// its change is undone.
func TestStateWithoutAnEventIsRefused(t *testing.T) {
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	_, err := c.Ref("a").Enter(ctx, 7, "")
	require.NoError(t, err)
	err = c.Ref("a").Cheat(ctx, 100)
	require.ErrorContains(t, err, "without an event")
	require.ErrorContains(t, c.Ref("a").Skim(ctx, 100), "a state that its events do not give", "in tests")
	require.Error(t, c.Ref("a").Peek(ctx), "a method marked to read has recorded an event")
	balance, entries, err := c.Ref("a").Statement(ctx)
	require.NoError(t, err)
	require.Equal(t, [2]int64{7, 1}, [2]int64{balance, entries})
}

// TestEventsAreKeptAsRecorded: an event that shares memory with the state is stored with its value
// at the time of recording. The next home and followers get that value.
func TestEventsAreKeptAsRecorded(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	n, _ := startSavings(v, "a")
	ctx := testContext(t)
	for _, item := range []string{"pear", "fig"} { // the first commit has the state, the second one only its events
		got, err := savings.NewBasketClient(n).Ref("x").Fill(ctx, item, "!")
		require.NoError(t, err)
		require.Equal(t, []string{item + "!"}, got)
	}
	v.kill("a")
	n, _ = startSavings(v, "b")
	got, err := savings.NewBasketClient(n).Ref("x").Show(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"fig!"}, got)
	var events []savings.BasketEvent
	for e, err := range savings.NewBasketClient(n).Events(ctx, "") {
		require.NoError(t, err)
		if events = append(events, e.Event); len(events) == 4 {
			break
		}
	}
	require.Equal(t, []savings.BasketEvent{savings.Filled{Items: []string{"pear"}}, savings.Marked{Mark: "!"}, savings.Filled{Items: []string{"fig"}}, savings.Marked{Mark: "!"}}, events)
}

// TestNilEventIsRefused: a turn that records a nil event fails, and its changes are undone.
func TestNilEventIsRefused(t *testing.T) {
	v := newWallets(t)
	n, _ := startSavings(v, "a")
	c := savings.NewBasketClient(n).Ref("x")
	_, err := c.Fill(testContext(t), "pear", "")
	require.NoError(t, err)
	err = c.Nothing(testContext(t))
	require.ErrorContains(t, err, "a nil event was recorded")
	require.Equal(t, shard.NotExecuted, shard.OutcomeOf(err))
	got, err := c.Show(testContext(t))
	require.NoError(t, err)
	require.Equal(t, []string{"pear"}, got)
}

// TestFollowerEndsWithItsContext: a loop over Events that waits for events ends when its ctx ends.
func TestFollowerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	n := 0
	for _, err := range c.Events(ctx, "") {
		n++
		require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	require.Equal(t, 1, n)
}

// TestAnEntityWithAJournalIsAPlainStruct: an entity with a journal works without a node.
func TestAnEntityWithAJournalIsAPlainStruct(t *testing.T) {
	a := &savings.Account{ID: "a"}
	balance, err := a.Enter(context.Background(), 5, "rent")
	require.NoError(t, err)
	require.EqualValues(t, 5, balance)
	require.Equal(t, []savings.Entry{{Amount: 5, Note: "rent"}}, a.Journal.Recorded())
}

// TestFollowerFromNow: a loop that begins at the end gets no older event and each later event once,
// even if the homes die. It continues from its positions like any other loop.
func TestFollowerFromNow(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	enter := func(c *savings.AccountClient, amount int64) {
		_, err := c.Ref("a").Enter(ctx, amount, "")
		require.NoError(t, err)
	}
	for range 20 {
		enter(c, 1)
	}
	newProjection().follow(t, c, 20) // until the events are in the journal
	type read struct {
		at      shard.Position
		amounts []int64
	}
	done := make(chan read)
	reader := func(c *savings.AccountClient, from shard.Position, n int) {
		var r read
		for e, err := range c.Events(ctx, from, shard.FromNow()) {
			if r.amounts = append(r.amounts, e.Event.Amount); err != nil || len(r.amounts) == n {
				r.at = e.Position
				break
			}
		}
		done <- r
	}
	go reader(c, "", 3)
	var first read
	next := int64(100)
	for ; first.at == ""; next++ {
		enter(c, next)
		select {
		case first = <-done:
		case <-time.After(10 * time.Millisecond):
		}
	}
	require.GreaterOrEqual(t, first.amounts[0], int64(100))
	v.kill("a")
	_, c = startSavings(v, "b")
	for range 5 {
		enter(c, next)
		next++
	}
	go reader(c, first.at, int(next-1-first.amounts[2]))
	all := append(first.amounts, (<-done).amounts...)
	for i, amount := range all {
		require.Equal(t, all[0]+int64(i), amount)
	}
	require.Equal(t, next-1, all[len(all)-1])
}

// TestFollowerOfEntity: a loop that follows one entity gets its events, and only these.
func TestFollowerOfEntity(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	for i := range 200 {
		_, err := c.Ref(fmt.Sprint("account-", i%50)).Enter(ctx, int64(i), "")
		require.NoError(t, err)
	}
	var at shard.Position
	for want := int64(7); want < 200; want += 50 {
		for e, err := range c.Events(ctx, at, shard.OfEntity("account-7")) {
			require.NoError(t, err)
			require.Equal(t, "account-7", e.Entity)
			require.Equal(t, want, e.Event.Amount)
			at = e.Position
			break
		}
	}
	for want, opts := range map[string][]shard.EventsOption{
		"shard.OfEntity with shard.FollowerName": {shard.OfEntity("a"), shard.FollowerName("x")},
		"(shard.OfEntity)":                       {shard.OfEntity("")},
	} {
		for _, err := range c.Events(ctx, "", opts...) {
			require.ErrorContains(t, err, want)
		}
	}
}

// TestEventBatches: a batch has events of one shard, in order, and the position behind the last
// one. If the body leaves the loop, the next loop gets the batch again.
func TestEventBatches(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	_, c := startSavings(v, "a")
	ctx := testContext(t)
	for i := range 300 {
		_, err := c.Ref(fmt.Sprint("account-", i%3)).Enter(ctx, 1, "")
		require.NoError(t, err)
	}
	newProjection().follow(t, c, 300)
	seen, batches, left := map[string]bool{}, 0, false
	var at shard.Position
	for len(seen) < 300 {
		for batch, err := range c.EventBatches(ctx, at) {
			require.NoError(t, err)
			if !left { // the batch comes again
				left = true
				break
			}
			batches++
			for i, e := range batch {
				require.Equal(t, batch[0].Number+uint64(i), e.Number)
				require.Equal(t, batch[0].Shard, e.Shard)
				require.Equal(t, i == len(batch)-1, e.Position != "")
				name := fmt.Sprint(e.Shard, "/", e.Number)
				require.False(t, seen[name], "event %s comes twice", name)
				seen[name] = true
			}
			at = batch[len(batch)-1].Position
			break // the next loop goes on at the position
		}
	}
	require.LessOrEqual(t, batches, 30, "of 300 events in three shards at most")
}
