package shardtest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestCallerLists: a list through a Caller has the entities that the test has put there.
func TestCallerLists(t *testing.T) {
	c := shardtest.NewCaller()
	for _, id := range []string{"b", "a", "c", "a1"} {
		c.Put("Account", id, &fixture.Account{})
	}
	c.Put("Cashier", "other", &fixture.Cashier{})
	accounts := fixture.NewAccountClient(c)
	for _, test := range []struct {
		opts []shard.ListOption
		want []string
	}{
		{nil, []string{"a", "a1", "b", "c"}},
		{[]shard.ListOption{shard.Active(), shard.Prefix("a")}, []string{"a", "a1"}},
		{[]shard.ListOption{shard.After("a1")}, []string{"b", "c"}},
	} {
		got := []string{}
		for id, err := range accounts.List(t.Context(), test.opts...) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for id, err := range accounts.List(ctx) {
		if id != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("got %q, %v, want context.Canceled", id, err)
		}
	}
}

// TestCallerFinds: a find through a Caller compares the fields of the test's structs.
func TestCallerFinds(t *testing.T) {
	c := shardtest.NewCaller()
	at := time.Unix(1000, 0)
	for i, id := range []string{"b", "a", "c", "a1"} {
		c.Put("Ticket", id, &bank.Ticket{Stage: bank.Open, Points: int32(2 - i), Due: at.Add(time.Duration(i) * time.Hour)})
	}
	c.Put("Ticket", "done", &bank.Ticket{Stage: bank.Closed, Points: -5})
	c.Put("Ticket", "fake", &fakeTicket{})
	tickets := bank.NewTicketClient(c)
	for name, test := range map[string]struct {
		got  iter.Seq2[string, error]
		want []string
	}{
		"string":          {tickets.FindByStage(t.Context(), bank.Open), []string{"a", "a1", "b", "c"}},
		"string, prefix":  {tickets.FindByStage(t.Context(), bank.Open, shard.Prefix("a")), []string{"a", "a1"}},
		"string, after":   {tickets.FindByStage(t.Context(), bank.Open, shard.After("a")), []string{"a1", "b", "c"}},
		"integer":         {tickets.FindByPoints(t.Context(), -1), []string{"a1"}},
		"integers":        {tickets.FindByPointsBetween(t.Context(), -5, 2), []string{"done", "a1", "c", "a"}},
		"time":            {tickets.FindByDue(t.Context(), at.UTC()), []string{"b"}},
		"times":           {tickets.FindByDueBetween(t.Context(), at, at.Add(2*time.Hour)), []string{"b", "a"}},
		"unexported bool": {tickets.FindByUrgent(t.Context(), false), []string{"a", "a1", "b", "c", "done"}},
		"none":            {tickets.FindByStage(t.Context(), "lost"), []string{}},
	} {
		got := []string{}
		for id, err := range test.got {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

type fakeTicket struct{ bank.TicketAPI }

// TestListInAStorm: while members are killed, paused and cut off, a list has each lasting entity
// once, in order.
func TestListInAStorm(t *testing.T) {
	host := func(n *shard.Node) error {
		return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		wallets := bank.NewWalletClient(c.Client())
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprintf("v%02d", i))
			if _, err := wallets.Ref(want[i]).Add(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		list := func(ctx context.Context) (got []string, err error) {
			for id, err := range wallets.List(ctx) {
				if err != nil {
					return got, err
				}
				got = append(got, id)
			}
			return got, nil
		}
		over, done := make(chan struct{}), make(chan int)
		go func() {
			whole := 0
			defer func() { done <- whole }()
			for {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				got, err := list(ctx)
				cancel()
				if len(got) > len(want) || !slices.Equal(got, want[:len(got)]) || err == nil && len(got) < len(want) {
					t.Errorf("got %q, %v, want %q", got, err, want)
				}
				if err == nil {
					whole++
				}
				select {
				case <-over:
					return
				case <-time.After(200 * time.Millisecond): // otherwise no time passes for the storm
				}
			}
		}()
		c.Storm(2 * time.Minute)
		c.Settle()
		close(over)
		if n := <-done; n == 0 {
			t.Error("no list was complete")
		}
		if got, err := list(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("afterwards: got %q, %v, want %q", got, err, want)
		}
	}, shardtest.Host(host))
}
