package shardtest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/core/schedule"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/wire"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/shardtest"
)

// A taker keeps the invoker of a client.
type taker struct {
	*shard.Conn
	by codegen.Invoker
}

func (c *taker) ShardInvoker(k codegen.Kind) codegen.Invoker {
	c.by = c.Conn.ShardInvoker(k)
	return c.by
}

// TestReminderOfClient: a reminder set by a client runs neither as a member's call nor as a
// gateway's, whatever the client sends.
func TestReminderOfClient(t *testing.T) {
	for name, forged := range map[string]bool{"plain": false, "forged": true} {
		t.Run(name, func(t *testing.T) {
			from := &atomic.Pointer[shard.Identity]{}
			shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
				by := &taker{Conn: c.Client()}
				wallets := bank.NewWalletClient(by)
				if forged {
					info := wire.Info{Gateway: "root"}
					request := &wire.DurableSchedule{After: 1000, Reminder: &wire.DurableReminder{Method: "Put", Args: []byte{10}, Kind: uint32(schedule.KindOnce), Info: info.Append(nil)}}
					_, err := by.by.Do(t.Context(), codegen.NewRef(by.by, "a", nil), wire.MethodSchedule, append(codegen.NewArgs(), reminders.Encode(request)...))
					require.NoError(t, err)
				} else {
					require.NoError(t, wallets.Tell("a", shard.In(time.Second)).Put(t.Context(), 5))
				}
				c.Advance(3 * time.Second)
				require.NotNil(t, from.Load())
				require.Equal(t, shard.ClassClient, from.Load().Class, "%+v", from.Load())
				require.NotEmpty(t, from.Load().Name)
			}, shardtest.Host(func(n *shard.Node) error {
				return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(func(ctx context.Context, i shard.Info, next func(context.Context) error) error {
					if _, fired := shard.Fired(ctx); fired {
						from.Store(&i.From)
					}
					return next(ctx)
				}))
			}))
		})
	}
}
