package shardtest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/shardtest"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

func hostWallet(n *shard.Node) error {
	return bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} })
}

// published returns the numbers that were published on a subject.
func published(c *shardtest.Cluster, subject string) string {
	return texts(c.Store().Published(subject))
}

func texts(all []memorystore.Published) string {
	var found []string
	for _, m := range all {
		found = append(found, string(m.Data))
	}
	return strings.Join(found, " ")
}

// upTo returns the text of the numbers from 1 to n.
func upTo(n int64) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(i+1))
	}
	return strings.Join(all, " ")
}

// TestPublishedOnceInStorms: each turn of an entity publishes its total. After kills, moves,
// pauses, cuts, faults and an outage of the store, the stream has each total once, in order.
func TestPublishedOnceInStorms(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		// The shortest allowed window, so that messages published again are often older than it.
		c.Store().SetStream(10*time.Second, "total.>")
		trouble := memorystore.Trouble{Cut: 0.1, RequestLost: 0.1, AnswerLost: 0.2}.Faults(rand.New(rand.NewPCG(c.Seed(), 7)))
		c.Store().Fault(func(op memorystore.Op) memorystore.Fault {
			if op.Name != "publish" {
				return memorystore.Fault{}
			}
			return trouble(op)
		})
		const entities = 4
		over := make(chan struct{})
		var callers sync.WaitGroup
		wallets := bank.NewWalletClient(c.Client())
		for i := range entities {
			callers.Go(func() {
				id := fmt.Sprint("v", i)
				for {
					select {
					case <-over:
						return
					case <-time.After(300 * time.Millisecond):
						_, _ = wallets.Ref(id).Announce(t.Context(), "total."+id, 1) // an unknown outcome does no harm
					}
				}
			})
		}
		c.Storm(time.Minute)
		c.Store().Stop()
		c.Advance(20 * time.Second)
		c.Store().Start(0)
		running := c.Running()
		for i := range entities {
			c.Move("Wallet", fmt.Sprint("v", i), running[i%len(running)])
		}
		c.Storm(time.Minute)
		close(over)
		callers.Wait()
		c.Store().Fault(nil)
		for i := range entities {
			id := fmt.Sprint("v", i)
			n, err := wallets.Ref(id).Get(t.Context())
			require.NoError(t, err)
			require.Greater(t, n, int64(20))
			c.Until(id+" has published all", func() bool {
				return len(c.Store().Published("total."+id)) >= int(n)
			})
			require.Equal(t, upTo(n), published(c, "total."+id))
		}
	}, shardtest.Host(hostWallet))
}

// TestPublishedOnceAfterWindow: a home ends when the stream has its messages, but before the log
// records that. The next home finds them in the stream, although its window has forgotten them.
func TestPublishedOnceAfterWindow(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		publishing := func(loss memorystore.Loss) {
			c.Store().Fault(func(op memorystore.Op) memorystore.Fault {
				if op.Name == "publish" {
					return memorystore.Fault{Loss: loss}
				}
				return memorystore.Fault{}
			})
		}
		wallets := bank.NewWalletClient(c.Client())
		publishing(memorystore.LoseAnswer)
		for range 3 {
			_, err := wallets.Ref("v").Announce(t.Context(), "total.v", 1)
			require.NoError(t, err)
		}
		c.Until("the stream has the first", func() bool { return published(c, "total.v") == "1" })
		publishing(memorystore.LoseConnection)
		c.Kill(c.Home("Wallet", "v"))
		c.Advance(10 * time.Minute)
		require.Equal(t, "1", published(c, "total.v"), "the second waits for the first")
		publishing(memorystore.LoseNothing)
		c.Until("the stream has the third", func() bool { return len(c.Store().Published("total.v")) >= 3 })
		c.Advance(time.Minute)
		require.Equal(t, upTo(3), published(c, "total.v"))
		ids := map[string]bool{}
		for _, m := range c.Store().Published(">") {
			require.Regexp(t, `^Wallet/\d+/\d+$`, m.ID)
			ids[m.ID] = true
		}
		require.Len(t, ids, 3)
	}, shardtest.Host(hostWallet))
}

// TestPublishedWhenThereIsAStream: a message waits for the stream that has its subject.
func TestPublishedWhenThereIsAStream(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(10 * time.Second)
		_, err := bank.NewWalletClient(c.Client()).Ref("v").Announce(t.Context(), "total.v", 1)
		require.NoError(t, err)
		c.Advance(5 * time.Minute)
		require.Empty(t, published(c, ">"))
		c.Store().SetStream(10*time.Second, ">")
		c.Until("the stream has it", func() bool { return published(c, "total.v") == "1" })
	}, shardtest.Host(hostWallet))
}

// TestPublishWithoutStream: if no stream has a message's subject, the message and the entity's
// later ones wait. It is counted and, after an hour, given up. Other entities go on.
func TestPublishWithoutStream(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		c.Store().SetStream(0, "total.>")
		wallets := bank.NewWalletClient(c.Client())
		for _, subject := range []string{"nobody.has.it", "total.v"} {
			_, err := wallets.Ref("v").Announce(t.Context(), subject, 1)
			require.NoError(t, err)
		}
		_, err := wallets.Ref("w").Announce(t.Context(), "total.w", 1)
		require.NoError(t, err)
		c.Until("another entity has published", func() bool { return published(c, "total.w") == "1" })
		c.Advance(50 * time.Minute)
		require.Empty(t, published(c, "total.v"))
		count := func(name string) (n uint64) {
			for _, node := range c.Running() {
				n += c.Node(node).Counters()[name]
			}
			return n
		}
		require.Positive(t, count("message waits"))
		require.Zero(t, count("tell given up"))
		c.Advance(15 * time.Minute)
		require.EqualValues(t, 2, count("tell given up"), "with the one that has waited behind it for as long")
		_, err = wallets.Ref("v").Announce(t.Context(), "total.v", 1)
		require.NoError(t, err)
		c.Until("dead letters hold up nothing", func() bool { return published(c, "total.v") == "3" })
	}, shardtest.Host(hostWallet), shardtest.Nodes(1))
}

// TestPublishInHooks: what OnActivate publishes is part of the commit of the turn that activates
// the entity, even if its method only reads. OnActivate of a singleton has no such turn.
func TestPublishInHooks(t *testing.T) {
	var instance error
	host := func(n *shard.Node) error {
		return errors.Join(
			bank.HostSaver(n, func() *bank.Saver {
				return &bank.Saver{Wakes: func(ctx context.Context, g *bank.Saver) error { return shard.Publish(ctx, "woke", g.Stays) }}
			}),
			bank.HostTreasury(n, func() *bank.Treasury {
				return &bank.Treasury{Wakes: func(ctx context.Context) error {
					instance = shard.Publish(ctx, "woke", 0)
					return nil
				}}
			}))
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		_, stays, _, err := bank.NewSaverClient(c.Client()).Ref("g").Get(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, stays)
		_, _, err = bank.NewTreasuryClient(c.Client()).Ref().Get(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, instance, "not published: the turn has no commit")
		c.Advance(time.Minute)
		require.Equal(t, "1", published(c, ">"))
	}, shardtest.Host(host))
}

// TestPublishBestEffort: a message with best effort is sent once, after the commit, and never stored.
func TestPublishBestEffort(t *testing.T) {
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		v := bank.NewWalletClient(c.Client()).Ref("v")
		require.NoError(t, v.Mumble(ctx, "live.v", 1))
		require.Error(t, v.Mumble(ctx, "live.v", -1), "a panic drops it with the changes")
		require.NoError(t, v.Show(ctx, "live.v", true), "a method that only reads has no commit")
		require.Equal(t, "1 1", texts(c.Store().Sent("live.*")))
		require.Empty(t, published(c, ">"))

		c.Store().Fault(func(op memorystore.Op) memorystore.Fault { // no commit reaches the log
			if op.Name == "append" {
				return memorystore.Fault{Loss: memorystore.LoseConnection}
			}
			return memorystore.Fault{}
		})
		within, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.Error(t, v.Mumble(within, "live.v", 1))
		require.Equal(t, "1 1", texts(c.Store().Sent("live.*")))
		c.Store().Fault(nil)
		c.Until("it is sent after the commit", func() bool { return texts(c.Store().Sent("live.*")) == "1 1 2" })
	}, shardtest.Host(hostWallet))
}

// TestPublishVolatile: a volatile type publishes only with best effort, and at once. Bytes are sent
// unchanged, protobuf messages in their encoding, and other values as JSON.
func TestPublishVolatile(t *testing.T) {
	var stored, bad error
	host := func(n *shard.Node) error {
		return fixture.HostFine(n, func() *fixture.Fine { return &fixture.Fine{} }, shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
			stored = shard.Publish(ctx, "a", 1)
			errs := []error{next(ctx)}
			for i, v := range []any{[]byte("bytes"), struct{ A string }{"json"}, wrapperspb.String("protobuf"), "text"} {
				errs = append(errs, shard.Publish(ctx, fmt.Sprint("a.", i), v, shard.BestEffort))
			}
			bad = shard.Publish(ctx, "a", func() {}, shard.BestEffort)
			return errors.Join(errs...)
		}))
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		_, err := fixture.NewFineClient(c.Client()).Ref("f").Echo(t.Context(), nil)
		require.NoError(t, err)
		require.ErrorIs(t, stored, shard.ErrNotPublished)
		require.ErrorContains(t, stored, "the type is not durable")
		require.ErrorIs(t, bad, shard.ErrNotPublished)
		require.ErrorContains(t, bad, "unsupported type")
		require.Equal(t, "bytes {\"A\":\"json\"} \n\bprotobuf \"text\"", texts(c.Store().Sent("a.*")))
		require.Empty(t, published(c, ">"))
	}, shardtest.Host(host))
}

// TestPublishErrors: if Publish fails, its error has the reason, and nothing is published.
func TestPublishErrors(t *testing.T) {
	var late context.Context
	var early error
	host := func(n *shard.Node) error {
		return errors.Join(
			bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }, shard.Intercept(func(ctx context.Context, _ shard.Info, next func(context.Context) error) error {
				early, late = shard.Publish(ctx, "a", 1), ctx
				return next(ctx)
			})))
	}
	shardtest.Run(t, func(t *testing.T, c *shardtest.Cluster) {
		ctx := t.Context()
		v := bank.NewWalletClient(c.Client()).Ref("v")
		require.ErrorContains(t, v.Show(ctx, "a", false), "not published: the turn has no commit, because its method is marked //shard:read")
		for _, subject := range []string{"", "a.*", "a..b", "$JS.API.STREAM.PURGE.x", "a b"} {
			_, err := v.Announce(ctx, subject, 1)
			require.ErrorContains(t, err, "not published: bad key")
		}
		require.ErrorIs(t, early, shard.ErrNotPublished)
		require.ErrorContains(t, early, "an interceptor published before the turn had begun")
		for _, outside := range []context.Context{ctx, late} {
			err := shard.Publish(outside, "a", 1)
			require.ErrorIs(t, err, shard.ErrNotPublished)
			require.ErrorContains(t, err, "ctx is not the context of an entity's method")
		}
		c.Advance(time.Minute)
		require.Empty(t, c.Store().Published(">"))
	}, shardtest.Host(host))
}
