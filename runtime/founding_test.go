package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/transport/memory"
)

// TestSecondBrokerWithTheSameStoreIsRefused: a node at another broker than its cluster, but with
// the same store, forms no second cluster while the first cluster lives. Its error names the
// founder and both brokers. When the first cluster is gone, the node forms a cluster.
func TestSecondBrokerWithTheSameStoreIsRefused(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	_, err := ref(v.nodes["a"], "v").Add(testContext(t), 1)
	require.NoError(t, err)

	v.broker = memory.NewBroker(memory.Options{Name: "other"})
	log := make(lines, 1000)
	v.tune = func(cfg *shard.Config) { cfg.Logger, cfg.Membership.JoinTimeout = log.logger(), 6*time.Second }
	refused := v.node("b")
	require.ErrorContains(t, refused.Start(testContext(t)), "the store's record names a cluster formed by a#")
	require.NoError(t, refused.Close())
	require.Contains(t, log.await(t, "the store already has a cluster of this name"), "founder=a#")

	total(t, v.nodes["a"], "v", 1)
	v.kill("a")
	v.tune = nil
	v.start("c")
	total(t, v.nodes["c"], "v", 1)
}

// TestRestartAtTheSameBrokerTakesNoLonger: the founding record of a cluster whose processes have
// all ended does not delay the next cluster at the same broker.
func TestRestartAtTheSameBrokerTakesNoLonger(t *testing.T) {
	t.Parallel()
	v := newWallets(t, "a")
	v.kill("a")
	began := time.Now()
	v.start("b")
	v.kill("b")
	first := time.Since(began)
	require.Less(t, first, 3*time.Second, "the record counts for longer where its broker is another one")
}

// TestClusterServesAgainAfterAnother: the record of the founding was lost, so a second cluster of
// the same name forms and takes all shards in the store. Each leader names the other cluster. When
// the second cluster has ended, the first one serves all its entities again without a restart.
func TestClusterServesAgainAfterAnother(t *testing.T) {
	t.Parallel()
	v := newWallets(t)
	log := make(lines, 10_000)
	v.tune = func(cfg *shard.Config) { cfg.Logger = log.logger() }
	v.start("a")
	v.tune = nil
	ids := make([]string, 40)
	for i := range ids {
		ids[i] = fmt.Sprint("v", i)
		_, err := ref(v.nodes["a"], ids[i]).Add(testContext(t), 1)
		require.NoError(t, err)
	}

	client, ctx := v.store.Client(), testContext(t)
	v.broker = memory.NewBroker(memory.Options{Name: "other"})
	up, lost := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(lost)
		for { // the leader of the first cluster writes the record every second
			if found, err := client.Get(ctx, "founding/test"); err == nil && strings.Contains(string(found.Value), `"name":"a"`) {
				_ = client.Delete(ctx, "founding/test", found.Revision)
			}
			select {
			case <-up:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	v.start("b")
	close(up)
	<-lost
	for _, id := range ids {
		total(t, v.nodes["b"], id, 1)
	}
	line := log.await(t, "another cluster of this name uses the same store")
	require.Contains(t, line, "founder=b#")
	require.Contains(t, line, "through=other-")
	v.kill("b")
	for _, id := range ids {
		var err error
		require.Eventually(t, func() bool {
			_, err = ref(v.nodes["a"], id, shard.CommandID("again")).Add(ctx, 1)
			return err == nil
		}, testPatience, 100*time.Millisecond, "%s: %v", id, &err)
		total(t, v.nodes["a"], id, 2)
	}
}
