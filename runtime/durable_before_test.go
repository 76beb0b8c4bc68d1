package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
)

// otherwise is a wallet with another function as Add.
type otherwise struct {
	bank.WalletAPI
	add func(ctx context.Context, n int64) error
}

func (o otherwise) Add(ctx context.Context, n int64) (int64, error) { return n, o.add(ctx, n) }

// TestDurableTurnsCallWhenWhatTheySawIsCommitted: a call that a turn makes, by whatever function,
// is not sent before the log has all state that the turn saw.
func TestDurableTurnsCallWhenWhatTheySawIsCommitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		add  func(ctx context.Context, node shard.Caller, n int64) error
	}{
		{"durable", func(ctx context.Context, node shard.Caller, n int64) error {
			_, err := ref(node, "w").Add(ctx, n)
			return err
		}},
		{"volatile", func(ctx context.Context, node shard.Caller, n int64) error {
			_, err := fixture.NewAccountClient(node).Ref("w").Add(ctx, n)
			return err
		}},
		{"raw", func(ctx context.Context, node shard.Caller, n int64) error {
			_, err := fixture.NewAccountClient(node).CallRaw(ctx, shard.Raw{Method: "Add", ID: "w", Body: []byte(`{"n":1}`)})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newWallets(t)
			v.made = func(n *shard.Node) {
				require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
				v.others = func(client *bank.WalletClient, id string) bank.WalletAPI {
					return otherwise{client.API(id), func(ctx context.Context, by int64) error { return c.add(ctx, n, by) }}
				}
			}
			node, short := v.start("a"), 200*time.Millisecond
			account := fixture.NewAccountClient(node).Ref("w")
			for _, id := range []string{"v", "w"} { // all are active
				total(t, node, id, 0)
			}
			balance, err := account.Get(testContext(t))
			require.NoError(t, err)
			require.Zero(t, balance)
			v.own["a"].Cut(true)
			ctx, cancel := context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err = ref(node, "v").Add(ctx, 5) // its turn ends, but its commit does not reach the log
			require.ErrorIs(t, err, context.DeadlineExceeded)
			ctx, cancel = context.WithTimeout(t.Context(), short)
			defer cancel()
			_, err = ref(node, "v").Send(ctx, "w", 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			v.own["a"].Cut(false)
			total(t, node, "v", 5)
			total(t, node, "w", 0)
			balance, err = account.Get(testContext(t))
			require.NoError(t, err)
			require.Zero(t, balance)
		})
	}
}
