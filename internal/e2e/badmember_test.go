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

// TestGoneBadInAccount: a member's rights reach to every inbox of the account and, with those to a
// store, to the messages of every stream. They do not reach to other clusters, nor to deleting streams.
func TestGoneBadInAccount(t *testing.T) {
	all := rights.Rights{Publish: []string{">"}, Subscribe: []string{">"}}
	url := leastPrivilege(t, map[string]rights.Rights{"worker": rights.Worker("e2e", "bank"), "other": all})
	other := newRole(t, url("other"), "_INBOX")
	js, err := other.JetStream()
	require.NoError(t, err)
	_, err = js.AddStream(&nats.StreamConfig{Name: "orders", Subjects: []string{"orders.>"}})
	require.NoError(t, err)
	_, err = js.Publish("orders.1", []byte("x"))
	require.NoError(t, err)
	inbox, err := other.SubscribeSync("_INBOX.other.1")
	require.NoError(t, err)
	require.NoError(t, other.Flush())

	bad := newRole(t, url("worker"), "_INBOX")
	require.NoError(t, bad.Publish("_INBOX.other.1", []byte("forged")))
	m, err := inbox.NextMsg(10 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "forged", string(m.Data))
	answer, err := bad.Request("$JS.API.STREAM.PURGE.orders", nil, 10*time.Second)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"purged":1`)
	bad.mayNot(t, []string{
		"sh.other.m.all", "sh.other.c.web.4000000000000001.any", "sh.other.r.c.web.4000000000000001.0.f", "sh.e2e.r.m.a.4000000000000001.u",
		"sh.e2e.c.web.4000000000000001.any", "sh.e2e.o.ann.do.c000000000000001.any", "orders.1", "$JS.API.STREAM.DELETE.orders", "$JS.API.STREAM.UPDATE.orders",
	}, []string{"sh.other.>", "orders.>", "$JS.API.>", ">"})
}

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
