package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	memstore "github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/transport/memory"
)

func newAccount() *fixture.Account { return &fixture.Account{} }

func requireEnd(t *testing.T, n *shard.Node) {
	t.Helper()
	select {
	case <-n.Done():
	default:
		t.Error("Done is not closed")
	}
}

func TestLifeOfNode(t *testing.T) {
	c := newCluster(t, "a")
	n := c.nodes["a"]
	select {
	case <-n.Done():
		t.Fatal("Done is closed in a node that runs")
	default:
	}
	require.NoError(t, n.Err())
	require.ErrorIs(t, n.Start(testContext(t)), shard.ErrStarted)
	require.ErrorIs(t, fixture.HostAccount(n, newAccount), shard.ErrStarted)
	for range 2 {
		require.NoError(t, n.Shutdown(testContext(t)))
		requireEnd(t, n)
	}
	for range 2 {
		require.NoError(t, n.Close())
	}
	require.NoError(t, n.Err())
	require.ErrorIs(t, n.Start(testContext(t)), shard.ErrClosed)
	_, err := fixture.NewAccountClient(n).Ref("bob").Add(testContext(t), 1)
	requireCall(t, err, shard.ErrClosed, shard.NotExecuted)
}

func TestEndWithoutStart(t *testing.T) {
	for name, end := range map[string]func(*shard.Node) error{
		"Shutdown": func(n *shard.Node) error { return n.Shutdown(context.Background()) },
		"Close":    (*shard.Node).Close,
	} {
		t.Run(name, func(t *testing.T) {
			n := emptyCluster(t).add("a")
			require.NoError(t, end(n))
			requireEnd(t, n)
			require.NoError(t, n.Err())
			require.NoError(t, end(n))
			require.ErrorIs(t, n.Start(testContext(t)), shard.ErrClosed)
		})
	}
}

// TestEndWhileStarting ends nodes that wait for a second member.
func TestEndWhileStarting(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*shard.Node) error{
		"Shutdown": func(n *shard.Node) error { return n.Shutdown(context.Background()) },
		"Close":    (*shard.Node).Close,
	} {
		t.Run(name, func(t *testing.T) {
			c := emptyCluster(t)
			c.tune = func(cfg *shard.Config) { cfg.Membership.MinMembers = 2 }
			n := c.add("a")
			started := make(chan error, 1)
			go func() { started <- n.Start(testContext(t)) }()
			require.Eventually(t, func() bool { return n.Started() }, testPatience, testTick)
			ended := make(chan error, 1)
			go func() { ended <- end(n) }()
			require.NoError(t, receive(t, ended, "the end"))
			require.ErrorIs(t, receive(t, started, "Start returns"), shard.ErrClosed)
			requireEnd(t, n)
		})
	}
}

func TestStartRunsOutOfTime(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) { cfg.Membership.MinMembers = 2 }
	n := c.add("a")
	ctx, cancel := context.WithTimeout(context.Background(), 3*soon)
	defer cancel()
	err := n.Start(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "start node a")
	requireEnd(t, n)
	require.ErrorIs(t, n.Err(), context.DeadlineExceeded)
}

func TestStartWithoutBroker(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	c.broker.Stop()
	n := c.add("a")
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	require.ErrorContains(t, n.Start(ctx), "start node a: open link")
	c.broker.Start()
	require.NoError(t, n.Start(testContext(t)), "nothing had begun, so it may be tried again")
}

func TestRun(t *testing.T) {
	n := emptyCluster(t).add("a")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	_, err := fixture.NewAccountClient(n).Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	cancel()
	require.NoError(t, receive(t, ran, "Run returns"))
	requireEnd(t, n)
	require.ErrorIs(t, n.Run(context.Background()), shard.ErrClosed)
}

// TestShutdownRunsOutOfTime: while a turn does not end, Shutdown waits, and stops the node at once
// when its context ends.
func TestShutdownRunsOutOfTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	accounts := fixture.NewAccountClient(c.nodes["a"])
	c.hold(context.Background(), accounts)
	for _, n := range []string{"a", "b"} { // one of them has the turn
		ctx, cancel := context.WithTimeout(context.Background(), 5*soon)
		if err := c.nodes[n].Shutdown(ctx); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "shut down node "+n)
			require.Equal(t, err, c.nodes[n].Err())
		}
		cancel()
		requireEnd(t, c.nodes[n])
	}
	require.Error(t, receive(t, c.probe.Left, "the method's context ends with its node"))
}

func TestHostErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		host func(n *shard.Node) error
		want string
	}{
		{"twice", func(n *shard.Node) error {
			if err := fixture.HostAccount(n, newAccount); err != nil {
				return err
			}
			return fixture.HostAccount(n, newAccount)
		}, "host Account: the name is hosted already"},
		{"no factory", func(n *shard.Node) error { return fixture.HostAccount(n, nil) }, "host Account: the factory is nil"},
		{"idle too short", func(n *shard.Node) error {
			return fixture.HostAccount(n, newAccount, shard.IdleAfter(time.Millisecond))
		}, "host Account: IdleAfter(1ms): want 0 or at least 1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := shard.New(emptyCluster(t).config("a"))
			require.ErrorContains(t, test.host(n), test.want)
			require.ErrorContains(t, n.Start(testContext(t)), test.want, "Start says it too")
			require.NoError(t, n.Close())
		})
	}
}

func TestBadConfigs(t *testing.T) {
	for want, spoil := range map[string]func(*shard.Config){
		"cluster name is empty":                                 func(c *shard.Config) { c.Cluster = "" },
		"node name":                                             func(c *shard.Config) { c.Name = "a.b" },
		"seed name":                                             func(c *shard.Config) { c.Seeds = []string{"ok", "not ok"} },
		"role name":                                             func(c *shard.Config) { c.Roles = []string{""} },
		"config: Transport is nil":                              func(c *shard.Config) { c.Transport = nil },
		"config: Membership.MinMembers is -1":                   func(c *shard.Config) { c.Membership.MinMembers = -1 },
		"config: Lanes is 65: want 1 to 64":                     func(c *shard.Config) { c.Lanes = 65 },
		"config: Lanes is -1: want 1 to 64":                     func(c *shard.Config) { c.Lanes = -1 },
		"Store is a nil *memory.Client":                         func(c *shard.Config) { c.Store = (*memstore.Client)(nil) },
		"Membership.Table.Store is a nil *memory.Client":        func(c *shard.Config) { c.Membership.Table.Store = (*memstore.Client)(nil) },
		"Transport is a nil *memory.Transport":                  func(c *shard.Config) { c.Transport = (*memory.Transport)(nil) },
		"config: CallTimeout is 1µs":                            func(c *shard.Config) { c.CallTimeout = time.Microsecond },
		"config: Membership.JoinTimeout is 1ms":                 func(c *shard.Config) { c.Membership.JoinTimeout = time.Millisecond },
		"config: HandoffTimeout is 1ms":                         func(c *shard.Config) { c.HandoffTimeout = time.Millisecond },
		"config: Membership.LeaveTimeout is -1s":                func(c *shard.Config) { c.Membership.LeaveTimeout = -time.Second },
		"config: Limits.BufferSize is -1":                       func(c *shard.Config) { c.Limits.BufferSize = -1 },
		"config: Limits.MailboxCalls is -1":                     func(c *shard.Config) { c.Limits.MailboxCalls = -1 },
		"config: Limits.Window is 1024":                         func(c *shard.Config) { c.Limits.Window = 1024 },
		"config: Limits.Window is 33554432":                     func(c *shard.Config) { c.Limits.Window = 32 << 20 },
		"config: Limits.MaxBuffered is 1: want at least Win":    func(c *shard.Config) { c.Limits.MaxBuffered = 1 },
		"config: Rebalance.MaxMoves is -1":                      func(c *shard.Config) { c.Rebalance.MaxMoves = -1 },
		"config: Limits.SingletonBuffer is -1: want 0 to 10000": func(c *shard.Config) { c.Limits.SingletonBuffer = new(-1) },
		"config: Rebalance.Interval is 1ms":                     func(c *shard.Config) { c.Rebalance.Interval = time.Millisecond },
		"config: Rebalance.Threshold is -1":                     func(c *shard.Config) { c.Rebalance.Threshold = -1 },
		"config: Membership.MinRoleMembers: role name":          func(c *shard.Config) { c.Membership.MinRoleMembers = map[string]int{"a b": 1} },
		"config: Membership.MinRoleMembers[gpu] is 0":           func(c *shard.Config) { c.Membership.MinRoleMembers = map[string]int{"gpu": 0} },
		"config: Membership.GossipInterval is -1s":              func(c *shard.Config) { c.Membership.GossipInterval = -time.Second },
		"config: Membership.GossipSpeedup is -1":                func(c *shard.Config) { c.Membership.GossipSpeedup = -1 },
		"config: Membership.GossipToUnseen is 1.5":              func(c *shard.Config) { c.Membership.GossipToUnseen = 1.5 },
		"config: Membership.GossipManyMembers is -1":            func(c *shard.Config) { c.Membership.GossipManyMembers = -1 },
		"config: Membership.GossipMaxWait is -1s":               func(c *shard.Config) { c.Membership.GossipMaxWait = -time.Second },
		"config: Membership.Detection is 7":                     func(c *shard.Config) { c.Membership.Detection = 7 },
		"config: Membership.MonitoredBy is -1":                  func(c *shard.Config) { c.Membership.MonitoredBy = -1 },
		"config: Membership.PhiThreshold is 301":                func(c *shard.Config) { c.Membership.PhiThreshold = 301 },
		"config: Membership.GoneAfter is 500ms":                 func(c *shard.Config) { c.Membership.GoneAfter = 500 * time.Millisecond },
		"config: Membership.SilentAfter is 2s":                  func(c *shard.Config) { c.Membership.SilentAfter = 2 * time.Second },
	} {
		t.Run(want, func(t *testing.T) {
			cfg := emptyCluster(t).config("a")
			spoil(&cfg)
			n := shard.New(cfg)
			require.ErrorContains(t, n.Start(testContext(t)), want)
			require.NoError(t, n.Close())
			_, err := shard.Dial(testContext(t), cfg)
			require.ErrorContains(t, err, want)
		})
	}
	t.Run("all at once", func(t *testing.T) {
		err := shard.New(shard.Config{Lanes: 99}).Start(testContext(t))
		for _, want := range []string{"cluster name", "Transport", "Lanes"} {
			require.ErrorContains(t, err, want)
		}
	})
	t.Run("defaults", func(t *testing.T) {
		n := shard.New(shard.Config{Cluster: "test", Transport: memory.NewBroker(memory.Options{}).Transport()})
		require.NotEmpty(t, n.Name())
		require.NoError(t, n.Start(testContext(t)))
		require.NoError(t, n.Shutdown(testContext(t)))
	})
}

func TestDialErrors(t *testing.T) {
	t.Parallel()
	c := emptyCluster(t)
	dial := func(spoil func(*shard.Config)) error {
		cfg := c.config("client")
		if spoil != nil {
			spoil(&cfg)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*soon)
		defer cancel()
		_, err := shard.Dial(ctx, cfg)
		return err
	}
	err := dial(nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "dial cluster test: context deadline exceeded: no member answered")
	c.start("a")
	require.ErrorContains(t, dial(func(cfg *shard.Config) { cfg.Cluster = "other" }), "no member answered")
	err = dial(func(cfg *shard.Config) { cfg.Lanes = 7 })
	require.ErrorContains(t, err, "a refuses this process: ")
	require.ErrorContains(t, err, "anes")
	c.broker.Stop()
	require.ErrorContains(t, dial(nil), "dial cluster test: open link")
}

func TestConnClosesTwice(t *testing.T) {
	c := newCluster(t, "a")
	conn := c.dial("client")
	accounts := fixture.NewAccountClient(conn)
	_, err := accounts.Ref("bob").Add(testContext(t), 1)
	require.NoError(t, err)
	held := c.hold(context.Background(), accounts)
	require.NoError(t, conn.Close())
	requireCall(t, receive(t, held, "the call fails"), shard.ErrClosed, shard.Unknown)
	require.NoError(t, conn.Close())
	_, err = accounts.Ref("bob").Add(testContext(t), 1)
	requireCall(t, err, shard.ErrClosed, shard.NotExecuted)
	close(c.probe.Release)
}
