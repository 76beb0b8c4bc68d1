package shardtest_test

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/auction/auction"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestClientFollowsEvents: the client follows events in its store. Faults can cut it off from that
// store.
func TestClientFollowsEvents(t *testing.T) {
	host := func(n *shard.Node) error {
		return savings.HostAccount(n, func() *savings.Account { return &savings.Account{} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		at := shard.Position("")
		next := func() (int64, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for e, err := range savings.NewAccountClient(c.Client()).Events(ctx, at) {
				at = e.Position
				return e.Event.Amount, err
			}
			return 0, errors.New("the loop has ended")
		}
		enter := func(amount int64) {
			t.Helper()
			if _, err := savings.NewAccountClient(c.Node("n1")).Ref("a").Enter(t.Context(), amount, ""); err != nil {
				t.Fatal(err)
			}
		}
		enter(7)
		if got, err := next(); got != 7 || err != nil {
			t.Errorf("got %d, %v; want 7", got, err)
		}
		before := at
		c.Isolate("client")
		enter(8)
		if got, err := next(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut off from the store: got %d, %v; want none", got, err)
		}
		at = before
		c.Mend()
		if got, err := next(); got != 8 || err != nil {
			t.Errorf("got %d, %v; want 8", got, err)
		}
	}, shardtest.Host(host))
}

// TestIdleClientBlamesNobody: if a call times out, its home may have sent nothing since an earlier
// call only because the client was idle. The error says when the last message came, and does not
// blame the home.
func TestIdleClientBlamesNobody(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		users := auction.NewUserClient(c.Client())
		if err := users.Ref("ann").Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Minute) // meanwhile shards move to younger nodes
		home := c.Home("User", "ann")
		if err := users.Ref("ann").Deposit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c.Advance(20 * time.Second)
		c.Cut("client", home)
		err := users.Ref("ann", shard.Timeout(2*time.Second)).Deposit(t.Context(), 1)
		want := regexp.MustCompile("no answer from " + home + `; its last message came 2\d(\.\d)?s ago`)
		if err == nil || !want.MatchString(err.Error()) {
			t.Errorf("got %v, want %v", err, want)
		}
	}, shardtest.Host(auction.Host))
}

// TestCallerOfDurable: asks of a durable type run on the struct, too, whether or not they are
// reads.
func TestCallerOfDurable(t *testing.T) {
	c := shardtest.NewCaller()
	c.Put("Wallet", "v", &bank.Wallet{ID: "v"})
	r := bank.NewWalletClient(c).Ref("v")
	if sum, err := r.Add(t.Context(), 5); err != nil || sum != 5 {
		t.Errorf("Add: %d, %v, want 5", sum, err)
	}
	if sum, err := r.Get(t.Context()); err != nil || sum != 5 { // marked //shard:read
		t.Errorf("Get: %d, %v, want 5", sum, err)
	}
	if n := len(c.Calls()); n != 2 {
		t.Errorf("%d calls are recorded, want 2", n)
	}
}
