package shard_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/store"
	memorystore "github.com/shardgen/shardgen/store/memory"
)

// hasty makes a cluster decide about members as fast as the options' bounds allow.
func hasty(m *membership.Options) {
	m.QuorumTimeout, m.CutAfter, m.SilentAfter = time.Second, time.Second, time.Second
	m.Downing.StableAfter = time.Second
}

func TestAutoDownIsRefusedWithSharding(t *testing.T) {
	t.Parallel()
	auto := membership.DowningOptions{Strategy: membership.DowningAuto, AutoDownAfter: 10 * time.Second}
	insisting := auto
	insisting.AutoDownDespiteSharding = true
	for name, test := range map[string]struct {
		downing membership.DowningOptions
		hosts   bool
		refused bool
	}{
		"with types":               {auto, true, true},
		"with types, insisting":    {insisting, true, false},
		"without types":            {auto, false, false},
		"another way, with types":  {membership.DowningOptions{Strategy: membership.DowningKeepOldest}, true, false},
		"the default":              {membership.DowningOptions{}, true, false},
		"static quorum, one alone": {membership.DowningOptions{Strategy: membership.DowningStaticQuorum, QuorumSize: 1}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := emptyCluster(t)
			c.tune = func(cfg *shard.Config) { cfg.Membership.Downing = test.downing }
			n := shard.New(c.config("a"))
			c.nodes["a"] = n
			if test.hosts {
				require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
			}
			err := n.Start(testContext(t))
			if !test.refused {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "auto-down splits a cluster")
		})
	}
}

func TestDowningConfigErrors(t *testing.T) {
	for want, downing := range map[string]membership.DowningOptions{
		"StableAfter is 1s: want at least Membership.QuorumTimeout (5s)":   {StableAfter: time.Second},
		"AutoDownAfter is 1s: want at least Membership.QuorumTimeout (5s)": {Strategy: membership.DowningAuto, AutoDownAfter: time.Second},
		"MinorityDelay is -1s": {MinorityDelay: -time.Second},
		`Strategy is "lease majority", and Config.Store is nil: set what natsstore.Open returns`: {Strategy: membership.DowningLeaseMajority},
		`Downing is "auto" and AutoDownAfter is 0s`:                                              {Strategy: membership.DowningAuto},
		`Downing is "static quorum" and QuorumSize 0`:                                            {Strategy: membership.DowningStaticQuorum},
		`downing "broker" does not use a role`:                                                   {Role: "core"},
	} {
		c := emptyCluster(t)
		c.tune = func(cfg *shard.Config) { cfg.Membership.Downing = downing }
		require.ErrorContains(t, shard.New(c.config("a")).Start(testContext(t)), want)
	}
}

// TestDowningMustAgree: a node with another downing strategy is refused, and the error has both
// values.
func TestDowningMustAgree(t *testing.T) {
	c := emptyCluster(t)
	c.start("a")
	c.tune = func(cfg *shard.Config) { cfg.Membership.Downing.Strategy = membership.DowningKeepOldest }
	err := c.add("b").Start(testContext(t))
	require.ErrorContains(t, err, `Config.Membership.Downing.Strategy is "keep oldest" at b and "broker" at a`)
}

// leased starts three nodes with DowningLeaseMajority.
func leased(t *testing.T) (*cluster, *memorystore.Server) {
	server := memorystore.New()
	c := emptyCluster(t)
	c.tune = func(cfg *shard.Config) {
		hasty(&cfg.Membership)
		cfg.Membership.Downing.Strategy, cfg.Store = membership.DowningLeaseMajority, server.Client()
	}
	for _, name := range []string{"a", "b", "c"} {
		c.start(name)
	}
	return c, server
}

// deciding returns the claim of another process to the lease that decides about downing.
func deciding(n *shard.Node) store.Claim {
	founder := n.Cluster().Founder
	return store.Claim{
		Name:   fmt.Sprintf("test/downing/%s=%016x", founder.Name, founder.Incarnation),
		Holder: "stranger", TTL: time.Hour,
	}
}

// TestLeaseMajority: when one of three nodes dies, the others take the lease and go on.
func TestLeaseMajority(t *testing.T) {
	t.Parallel()
	c, server := leased(t)
	a := c.nodes["a"]
	events := follow(testContext(t), a)
	// The store does not answer at first, so the nodes try again to take the lease.
	failures := 2
	server.Fault(func(op memorystore.Op) memorystore.Fault {
		if failures--; failures >= 0 {
			return memorystore.Fault{Loss: memorystore.LoseAnswer}
		}
		return memorystore.Fault{}
	})
	require.NoError(t, c.nodes["c"].Close())
	await(t, events, shard.EventRemoved, "c")
	require.Negative(t, failures)
	_, err := server.Client().Acquire(testContext(t), deciding(a))
	require.ErrorIs(t, err, store.ErrHeld)
	_, err = fixture.NewAccountClient(a).Ref("alice").Add(testContext(t), 1)
	require.NoError(t, err)
	require.NoError(t, c.nodes["b"].Err())
}

// TestLeaseMajorityLost: if another process has the lease, both remaining nodes stop.
func TestLeaseMajorityLost(t *testing.T) {
	t.Parallel()
	c, server := leased(t)
	_, err := server.Client().Acquire(testContext(t), deciding(c.nodes["a"]))
	require.NoError(t, err)
	require.NoError(t, c.nodes["c"].Close())
	for _, name := range []string{"a", "b"} {
		n := c.nodes[name]
		select {
		case <-n.Done():
		case <-testContext(t).Done():
			t.Fatalf("%s goes on", name)
		}
		require.ErrorIs(t, n.Err(), shard.ErrDowned)
	}
	both := errors.Join(c.nodes["a"].Err(), c.nodes["b"].Err())
	require.ErrorContains(t, both, "another side has taken the lease: store: acquire")
	require.ErrorContains(t, both, "held by stranger")
}
