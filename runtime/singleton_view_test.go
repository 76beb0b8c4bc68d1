package shard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/transport"
)

// TestOperatorSeesSingletons asks members that host the singleton, and a member that neither hosts
// nor calls it. It asks again after the singleton has moved.
func TestOperatorSeesSingletons(t *testing.T) {
	t.Parallel()
	c := newChiefs(t, "a", "b")
	c.cluster.start("plain")
	c.next(c.chief("b")) // the singleton runs
	o := c.operator()
	at := func(name string) transport.Address { return c.nodes[name].Peer().Address }
	asked := map[string]bool{}
	for len(asked) < 3 {
		v, err := o.Members(testContext(t))
		require.NoError(t, err)
		asked[v.Self.Name] = true
		require.Equal(t, []admin.Singleton{{Kind: "Chief", Node: at("a"), Hosts: []transport.Address{at("a"), at("b")}}}, v.Singletons, "as %s sees it", v.Self.Name)
	}
	b := at("b")
	c.leave("a")
	require.Eventually(t, func() bool {
		v, err := o.Members(testContext(t))
		require.NoError(t, err)
		return len(v.Singletons) == 1 && v.Singletons[0].Node == b && len(v.Singletons[0].Hosts) == 1
	}, testPatience, testTick)
	c.leave("b")
	require.Eventually(t, func() bool {
		v, err := o.Members(testContext(t))
		require.NoError(t, err)
		return len(v.Singletons) == 0
	}, testPatience, testTick)
}

// TestOperatorSeesNoInstance: operators see why the singleton has no instance: the store has given
// its lease to another process.
func TestOperatorSeesNoInstance(t *testing.T) {
	t.Parallel()
	l := newLeased(t)
	other, claim := l.claim()
	claim.TTL = time.Minute
	_, err := other.Acquire(testContext(t), claim)
	require.NoError(t, err)
	a := l.start("a")
	o := l.operator()
	waitFor(t, func() bool {
		v, err := o.Members(testContext(t))
		require.NoError(t, err)
		require.Len(t, v.Singletons, 1)
		s := v.Singletons[0]
		require.Equal(t, []transport.Address{a.Peer().Address}, s.Hosts)
		require.Zero(t, s.Node)
		return strings.Contains(s.Why, "somebody") // the holder of the lease
	})
}
