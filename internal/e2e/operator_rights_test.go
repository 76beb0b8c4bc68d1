package e2e

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/fixture"
	"github.com/shardgen/shardgen/internal/rights"
	"github.com/shardgen/shardgen/runtime/admin"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestOperatorRights: with the printed rights an operator gives each command, and a reader none.
func TestOperatorRights(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", ""), "ann": rights.Operator("e2e", "ann"), "bob": rights.Reader("e2e", "bob"),
	})
	workers := newCluster(t, url("worker"))
	a, b := workers.start("a"), workers.start("b")
	_, err := fixture.NewAccountClient(a).Ref("alice").Add(t.Context(), 5)
	require.NoError(t, err)
	dial := func(name string) *admin.Client {
		c, err := admin.Dial(t.Context(), admin.Options{Cluster: "e2e", Name: name, Transport: natstransport.New(url(name)), AnswerTimeout: time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ann, bob := dial("ann"), dial("bob")
	commands := []struct {
		name string
		give func(c *admin.Client) error
	}{
		{"state", func(c *admin.Client) error { _, err := c.State(t.Context(), "Account", "alice"); return err }},
		{"pause", func(c *admin.Client) error { return c.PauseRebalancing(t.Context()) }},
		{"resume", func(c *admin.Client) error { return c.ResumeRebalancing(t.Context()) }},
		{"rebalance", func(c *admin.Client) error { _, err := c.Rebalance(t.Context()); return err }},
		{"pin", func(c *admin.Client) error { _, err := c.Place(t.Context(), "Account", "alice", "b"); return err }},
		{"join", func(c *admin.Client) error { _, err := c.Join(t.Context(), "b"); return err }},
		{"down", func(c *admin.Client) error { _, err := c.Down(t.Context(), "b", true); return err }},
	}
	for _, command := range commands {
		require.Error(t, command.give(bob), "a reader: %s", command.name)
	}
	require.NoError(t, b.Err())
	for _, command := range commands {
		err := command.give(ann)
		if err != nil { // that this cluster has nothing to do is an answer
			require.NotErrorIs(t, err, nats.ErrPermissionViolation, command.name)
			require.ErrorIs(t, err, admin.ErrRefused, command.name)
		}
		t.Logf("an operator: %s: %v", command.name, err)
	}
	select {
	case <-b.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the member that is down lives")
	}
}
