package account_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/events/account"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestProjection: a projection goes on behind the last event that it stored.
func TestProjection(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "a", Transport: memory.NewBroker(memory.Options{}).Transport(), Store: memorystore.New().Client(),
	})
	if err := account.HostAccount(n, func() *account.Account { return &account.Account{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	accounts := account.NewAccountClient(n)
	table, at := map[string]int64{}, shard.Position("")
	for range 3 {
		for i := range 20 {
			if _, err := accounts.Ref(fmt.Sprint(i%3)).Enter(ctx, int64(i), "salary"); err != nil {
				t.Fatal(err)
			}
		}
		following, stop := context.WithCancel(ctx)
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
	if sum := table["0"] + table["1"] + table["2"]; sum != 3*190 {
		t.Errorf("the projection has %v, want a sum of %d", table, 3*190)
	}
}
