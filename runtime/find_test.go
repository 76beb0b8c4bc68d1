package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// tickets are nodes that host tickets, and the expected fields of each ticket.
type tickets struct {
	*wallets
	want map[string]bank.Ticket
}

func newTickets(t *testing.T, names ...string) *tickets {
	c := &tickets{newWallets(t), map[string]bank.Ticket{}}
	for _, name := range names {
		c.host(name, nil)
	}
	return c
}

func (c *tickets) host(name string, change func(n *shard.Node)) *shard.Node {
	c.t.Helper()
	cfg := c.config(name)
	cfg.Store = c.store.Client()
	n := shard.New(cfg)
	require.NoError(c.t, bank.HostTicket(n, func() *bank.Ticket { return &bank.Ticket{} }))
	if change != nil {
		change(n)
	}
	require.NoError(c.t, n.Start(testContext(c.t)))
	c.nodes[name] = n
	return n
}

// epoch is when the first ticket is due.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// set changes a ticket by a number.
func (c *tickets) set(ctx context.Context, at *bank.TicketClient, id string, n int) {
	c.t.Helper()
	w := bank.Ticket{Stage: bank.Open, Points: int32(n%7) - 3, Due: epoch.Add(time.Duration(n%5) * time.Hour)}
	if n%3 == 0 {
		w.Stage = bank.Closed
	}
	require.NoError(c.t, at.Ref(id).Set(ctx, w.Stage, w.Points, w.Due, n%2 == 0))
	w.Note = fmt.Sprint(n%2 == 0)
	c.want[id] = w
}

// ids returns the ids of the tickets that match, in the order of compare, or of their ids if it is
// nil.
func (c *tickets) ids(match func(w bank.Ticket) bool, compare func(a, b bank.Ticket) int) []string {
	ids := []string{}
	for id, w := range c.want {
		if match(w) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if compare != nil {
		slices.SortStableFunc(ids, func(a, b string) int { return compare(c.want[a], c.want[b]) })
	}
	return ids
}

func (c *tickets) check(ctx context.Context, at *bank.TicketClient, when string) {
	c.t.Helper()
	for _, stage := range []bank.Stage{bank.Open, bank.Closed, "lost", ""} {
		require.Equal(c.t, c.ids(func(w bank.Ticket) bool { return w.Stage == stage }, nil), listed(c.t, at.FindByStage(ctx, stage)), "%s: stage %q", when, stage)
	}
	byPoints := func(a, b bank.Ticket) int { return int(a.Points - b.Points) }
	for points := int32(-4); points < 5; points++ {
		require.Equal(c.t, c.ids(func(w bank.Ticket) bool { return w.Points == points }, nil), listed(c.t, at.FindByPoints(ctx, points)), "%s: %d points", when, points)
		between := c.ids(func(w bank.Ticket) bool { return points <= w.Points && w.Points < points+3 }, byPoints)
		require.Equal(c.t, between, listed(c.t, at.FindByPointsBetween(ctx, points, points+3)), "%s: from %d points", when, points)
	}
	due := c.ids(func(w bank.Ticket) bool { return w.Due.Before(epoch.Add(2 * time.Hour)) }, func(a, b bank.Ticket) int { return a.Due.Compare(b.Due) })
	require.Equal(c.t, due, listed(c.t, at.FindByDueBetween(ctx, time.Time{}, epoch.Add(2*time.Hour).In(time.FixedZone("", 3600)))), when)
	require.Equal(c.t, c.ids(func(w bank.Ticket) bool { return w.Note == "true" }, nil), listed(c.t, at.FindByUrgent(ctx, true)), when)
	require.Empty(c.t, listed(c.t, at.FindByPointsBetween(ctx, 3, 3)), when)
	require.Empty(c.t, listed(c.t, at.FindByPointsBetween(ctx, 3, -3)), when)
}

// TestFind: searches by fields are right after each change, at members and clients, after restarts
// and moves, and across checkpoints.
func TestFind(t *testing.T) {
	t.Parallel()
	c := newTickets(t, "a", "b")
	ctx := testContext(t)
	conn, err := shard.Dial(ctx, c.config("client"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	at := bank.NewTicketClient(conn)
	c.check(ctx, at, "none")
	for i, id := range manyBytes {
		c.set(ctx, at, id, i)
	}
	for i := range 300 {
		c.set(ctx, at, fmt.Sprint("t", i), i)
	}
	c.check(ctx, at, "made")
	c.check(ctx, bank.NewTicketClient(c.nodes["b"]), "at a member")
	for range 200 {
		id := fmt.Sprint("t", rand.IntN(300))
		switch rand.IntN(4) {
		case 0:
			require.NoError(t, at.Ref(id).Remark(ctx, "noted"))
			if _, there := c.want[id]; !there {
				c.want[id] = bank.Ticket{Note: "false"}
			}
		case 1:
			require.NoError(t, at.Ref(id).Shred(ctx))
			delete(c.want, id)
		default:
			c.set(ctx, at, id, rand.IntN(1000))
		}
	}
	c.check(ctx, at, "changed")
	c.kill("a")
	c.check(ctx, at, "after a failover")
	c.kill("b")
	c.host("c", nil)
	c.check(ctx, at, "after a restart")
	c.set(ctx, at, "t1", 1)
	c.host("d", nil)
	require.NoError(t, c.nodes["c"].Shutdown(ctx))
	delete(c.nodes, "c")
	c.check(ctx, at, "after a move")
}

func TestFindOptions(t *testing.T) {
	c := newTickets(t, "a")
	ctx := testContext(t)
	at := bank.NewTicketClient(c.nodes["a"])
	for i := range 100 {
		c.set(ctx, at, fmt.Sprint("t", i), 3*i) // all are closed
	}
	all := c.ids(func(bank.Ticket) bool { return true }, nil)
	require.Equal(t, all[40:], listed(t, at.FindByStage(ctx, bank.Closed, shard.After(all[39]))))
	require.Equal(t, []string{"t7", "t70", "t71"}, listed(t, at.FindByStage(ctx, bank.Closed, shard.Prefix("t7")))[:3])
	require.Len(t, listed(t, at.FindByPointsBetween(ctx, -10, 10, shard.Prefix("t7"))), 11)
	n := 0
	for _, err := range at.FindByStage(ctx, bank.Closed) {
		require.NoError(t, err)
		if n++; n == 5 {
			break
		}
	}
	for want, all := range map[string]func(func(string, error) bool){
		"shard.Active is for List alone":  at.FindByStage(ctx, bank.Closed, shard.Active()),
		"shard.After continues by id":     at.FindByStageBetween(ctx, "a", "z", shard.After("t1")),
		"shard.After: the id is of type":  at.FindByStage(ctx, bank.Closed, shard.After(3)),
		"neither a Node nor a Conn (make": shard.FindEntities(ctx, nil, codegen.Index{}, nil, nil, noFormat, codegen.ParseStringID[string]),
	} {
		for _, err := range all {
			require.ErrorContains(t, err, want)
		}
	}
}

func noFormat(id string) (string, error) { return id, nil }

// TestIndexOfAnotherProgram: if a shard moves to a home with another program, the home answers
// searches of its own indexes from the existing data. It refuses other indexes. Lists go on.
func TestIndexOfAnotherProgram(t *testing.T) {
	t.Parallel()
	c := newTickets(t)
	ctx := testContext(t)
	at := bank.NewTicketClient(c.host("a", func(n *shard.Node) { n.FindOnlyBy("Ticket", "", nil) }))
	for i := range 200 {
		c.set(ctx, at, fmt.Sprint("t", i), i)
	}
	for _, err := range at.FindByStage(ctx, bank.Open) {
		require.ErrorContains(t, err, "has no such index of Ticket (finish the roll-out")
	}
	all := listed(t, at.List(ctx))
	c.kill("a")
	at = bank.NewTicketClient(c.host("b", nil))
	require.Equal(t, all, listed(t, at.List(ctx)))
	c.check(ctx, at, "with indexes")
	for i := range 50 {
		c.set(ctx, at, fmt.Sprint("t", i), i+1)
	}
	c.kill("b")
	points := func(b []byte, entity any) []byte { return codegen.AppendIntIndex(b, 2, entity.(*bank.Ticket).Points) }
	at = bank.NewTicketClient(c.host("c", func(n *shard.Node) { n.FindOnlyBy("Ticket", "2i", points) }))
	for i := range 50 {
		c.set(ctx, at, fmt.Sprint("t", i+25), i+2)
	}
	require.Equal(t, c.ids(func(w bank.Ticket) bool { return w.Points == 1 }, nil), listed(t, at.FindByPoints(ctx, 1)))
	for _, err := range at.FindByStage(ctx, bank.Open) {
		require.ErrorContains(t, err, "has no such index")
	}
	c.kill("c")
	c.host("d", nil)
	c.check(ctx, bank.NewTicketClient(c.nodes["d"]), "with all indexes again")
}
