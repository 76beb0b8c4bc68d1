package shard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestMailboxHoldsBytes: the bytes of calls and tells that wait for an entity are bounded, from the
// same process and from others. The error of a refused call names the bound.
func TestMailboxHoldsBytes(t *testing.T) {
	t.Parallel()
	tune := func(cfg *shard.Config) { cfg.Limits.MailboxBytes = 1 << 20 }
	eachWay(t, tune, func(t *testing.T, c *cluster, accounts *fixture.AccountClient) {
		held := c.hold(testContext(t), accounts)
		payload := make([]byte, 100_000)
		const fit = 1 << 20 / 100_032
		for i := range fit {
			require.NoError(t, accounts.Tell("bob").Echo(testContext(t), payload))
			c.waiting(i + 1)
		}
		ctx, cancel := context.WithCancel(testContext(t))
		defer cancel()
		far := fixture.NewAccountClient(c.dial("another"))
		_, err := far.Ref("bob").Echo(ctx, payload)
		requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
		require.ErrorContains(t, err, "its mailbox at a may hold 1048576 bytes")
		require.ErrorContains(t, err, "MailboxBytes")
		for range 2 * fit {
			_ = accounts.Tell("bob").Echo(testContext(t), payload)
		}
		require.LessOrEqual(t, c.nodes["a"].WaitingBytes(), int64(1<<20))
		close(c.probe.Release)
		require.NoError(t, receive(t, held, "Hold returns"))
		require.Eventually(t, func() bool { return c.nodes["a"].WaitingBytes() == 0 }, testPatience, testTick)
		require.Eventually(t, func() bool { // some of the tells may only arrive now
			_, err = far.Ref("bob").Echo(testContext(t), payload)
			return err == nil
		}, testPatience, testTick, "the mailbox has room again")
	})
}

// TestNodeHoldsBytes: one bound covers the calls that wait for many entities and those that wait
// for a home.
func TestNodeHoldsBytes(t *testing.T) {
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) {
		cfg.Limits.MailboxBytes, cfg.Limits.ShardBytes, cfg.Limits.BufferBytes = 64<<10, 64<<10, 128<<10
	}
	c.opts = []shard.HostOption{shard.MinHosts(2)}
	a := c.start("a")
	accounts := fixture.NewAccountClient(a)
	payload := make([]byte, 30_000)
	for i := range 4 {
		require.NoError(t, accounts.Tell(fmt.Sprint("e", i)).Echo(testContext(t), payload))
	}
	for range 3 {
		err := accounts.Tell("one more").Echo(testContext(t), payload)
		requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
		require.ErrorContains(t, err, "no home yet")
		require.ErrorContains(t, err, "Config.Limits.BufferBytes")
	}
	c.start("b")
	require.Eventually(t, func() bool { return a.WaitingBytes() == 0 }, testPatience, testTick)
	require.NoError(t, accounts.Tell("one more").Echo(testContext(t), payload))
}

// TestTellsUnderWayHoldBytes: tells of the same process whose turns have begun are bounded too, and
// the entity of a refused tell can still be called.
func TestTellsUnderWayHoldBytes(t *testing.T) {
	c := newCluster(t, "a")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	settle(t, accounts, "bob")
	c.nodes["a"].FillRunners(true)
	var err error
	require.Eventually(t, func() bool { // the first tells may take another way, with other bounds
		err = accounts.Tell("bob").Add(testContext(t), 1)
		return err != nil
	}, testPatience, testTick)
	requireCall(t, err, shard.ErrOverloaded, shard.NotExecuted)
	require.ErrorContains(t, err, "Config.Limits.BufferBytes")
	got, err := accounts.Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	c.nodes["a"].FillRunners(false)
	require.NoError(t, accounts.Tell("bob").Add(testContext(t), 1))
	after, err := accounts.Ref("bob").Get(testContext(t))
	require.NoError(t, err)
	require.Equal(t, got+1, after)
}

func TestBytesOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		tune func(*shard.Config)
		opt  shard.HostOption
		want string
	}{
		"mailbox":     {func(c *shard.Config) { c.Limits.MailboxBytes = 1 }, nil, "MailboxBytes is 1: want 64 KiB to 1 GiB"},
		"shard":       {func(c *shard.Config) { c.Limits.ShardBytes = 1 << 20 }, nil, "ShardBytes is 1048576: want at least MailboxBytes (8388608)"},
		"node":        {func(c *shard.Config) { c.Limits.BufferBytes = 1 << 20 }, nil, "BufferBytes is 1048576: want at least ShardBytes (33554432)"},
		"the mailbox": {func(*shard.Config) {}, shard.MaxMailboxBytes(1), "MaxMailboxBytes(1): want 64 KiB to 1 GiB"},
	} {
		t.Run(name, func(t *testing.T) {
			c := emptyCluster(t)
			cfg := c.config("a")
			tt.tune(&cfg)
			n := shard.New(cfg)
			opts := []shard.HostOption{}
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			_ = fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }, opts...)
			require.ErrorContains(t, n.Start(testContext(t)), tt.want)
		})
	}
}
