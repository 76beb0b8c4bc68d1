package account_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/events/account"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
)

// TestProjection checks that a projection continues after the last event that it stored, even if
// the homes of the entities end.
func TestProjection(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		accounts := account.NewAccountClient(c.Client())
		table, at := map[string]int64{}, shard.Position("")
		for _, node := range []string{"n1", "n2"} {
			for i := range 20 {
				if _, err := accounts.Ref(fmt.Sprint(i%3)).Enter(t.Context(), int64(i), "salary"); err != nil {
					t.Fatal(err)
				}
			}
			c.Kill(node)
			following, stop := context.WithTimeout(t.Context(), time.Minute)
			events := 0
			var err error
			at, err = account.Follow(following, accounts, at, func(e shard.Event[account.Entry]) error {
				table[e.Entity] += e.Event.Amount
				if events++; events == 20 {
					stop()
				}
				return nil
			})
			if stop(); events != 20 || !errors.Is(err, context.Canceled) {
				t.Fatalf("%d events, %v: want 20", events, err)
			}
		}
		if sum := table["0"] + table["1"] + table["2"]; sum != 2*190 {
			t.Errorf("the projection has %v, want a sum of %d", table, 2*190)
		}
	}, shardtest.Host(host))
}

// host makes a node host accounts.
func host(n *shard.Node) error {
	return account.HostAccount(n, func() *account.Account { return &account.Account{} })
}
