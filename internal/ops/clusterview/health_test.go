package clusterview

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/ops/operator"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

var (
	web1 = transport.Address{Name: "web-1", Incarnation: 1}
	web2 = transport.Address{Name: "web-2", Incarnation: 2}
)

// A cluster answers questions.
type cluster struct {
	view   admin.View
	shards []admin.NodeShards
	facts  []admin.NodeFact
	err    error
}

func (c cluster) Members(context.Context) (admin.View, error) { return c.view, c.err }

func (c cluster) Shards(context.Context, string) ([]admin.NodeShards, error) { return c.shards, nil }
func (c cluster) Facts(context.Context) ([]admin.NodeFact, error)            { return c.facts, nil }
func (c cluster) health(t *testing.T) Health                                 { return Judge("shop", Look(t.Context(), c)) }

// TestHealth: a fault makes a cluster unhealthy, whether a member or this judgement has found it.
// Conditions that pass by themselves do not.
func TestHealth(t *testing.T) {
	now := time.Now()
	fact := func(found ...operator.Finding) admin.Fact {
		return admin.Fact{Time: now, MaxPayload: 1 << 20, Ready: true, Findings: found}
	}
	c := cluster{
		view: admin.View{Converged: true, Members: []admin.Member{
			{Address: web1, Status: membership.Up, Reachable: true, Hosts: []string{"Cart"}}, {Address: web2, Status: membership.Leaving, Reachable: true},
		}},
		shards: []admin.NodeShards{{Node: web1, Types: []admin.Type{{Kind: "Cart", Shards: 4, Held: []admin.Shard{{Shard: 4, State: "draining"}}}}}, {Node: web2}},
		facts:  []admin.NodeFact{{Node: web1, Asked: now, Answered: now, Fact: fact()}, {Node: web2, Asked: now, Answered: now, Fact: fact()}},
	}
	h := c.health(t)
	require.True(t, h.Healthy, "%v", h.Wrong)
	require.Equal(t, []int{2, 1, 4, 1}, []int{h.Members, h.Types, h.Shards, h.Moving})
	require.Equal(t, []string{"web-2#0000000000000002 is leaving", "shards on the move: 1"}, h.Notes)

	since := now.Add(-time.Minute)
	c.facts[0].Fact = fact(operator.Finding{Check: "store", Node: "web-1", Severity: operator.Unready, Since: since, Text: "it is full", Do: "make room"})
	h = c.health(t)
	require.False(t, h.Healthy)
	require.Equal(t, []string{"web-1: it is full (make room)"}, h.Wrong)
	require.Contains(t, h.Findings, Finding{Check: "store", Node: "web-1", Severity: "unready", Since: since, Text: "it is full", Do: "make room"})

	c.facts[0] = admin.NodeFact{Node: web1, Err: errors.New("no answer within 3s")}
	require.Contains(t, c.health(t).Wrong[0], "web-1#0000000000000001 does not answer: no answer within 3s")
	c.err = admin.ErrNoMember
	require.Contains(t, c.health(t).Wrong[0], "no member is up")
}
