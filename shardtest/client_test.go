package shardtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/fixture/giro"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestClientFollowsEvents: the client has a store, in which it follows events, and from which faults cut it off.
func TestClientFollowsEvents(t *testing.T) {
	host := func(n *shard.Node) error {
		return giro.HostAccount(n, func() *giro.Account { return &giro.Account{} })
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		at := shard.Position("")
		next := func() (int64, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for e, err := range giro.NewAccountClient(c.Client()).Events(ctx, at) {
				at = e.Position
				return e.Event.Amount, err
			}
			return 0, errors.New("the loop has ended")
		}
		enter := func(amount int64) {
			t.Helper()
			if _, err := giro.NewAccountClient(c.Node("n1")).Ref("a").Enter(t.Context(), amount, ""); err != nil {
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
