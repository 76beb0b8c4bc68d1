package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/wire/rights"
	"github.com/shardgen/shardgen/runtime/admin"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// leastPrivilege starts a NATS server with JetStream on which each user has the given rights
// and no others, and returns the URL of a user.
func leastPrivilege(t *testing.T, users map[string]rights.Rights) (url func(user string) string) {
	t.Helper()
	server, err := hostile.Guard(t.TempDir(), users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	return func(user string) string { return hostile.URL(server, user) }
}

// TestLeastPrivilege: the rights that shardctl permissions prints are enough for everything that
// members with durable entities, clients and operators do. A reader cannot change anything.
func TestLeastPrivilege(t *testing.T) {
	url := leastPrivilege(t, map[string]rights.Rights{
		"worker": rights.Worker("e2e", "bank"), "web": rights.Client("e2e", "web"),
		"ann": rights.Operator("e2e", "ann"), "bob": rights.Reader("e2e", "bob"),
	})
	store, err := natsstore.Open(t.Context(), url("worker"), natsstore.Config{Name: "bank", Partitions: 1})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	workers := newCluster(t, url("worker"))
	for _, name := range []string{"a", "b"} {
		config := workers.config(name)
		config.Store = store
		n := workers.host(config)
		require.NoError(t, bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }))
		workers.run(n)
	}

	conn := newCluster(t, url("web")).dial("web")
	for i := range 20 {
		_, err := fixture.NewAccountClient(conn).Ref(fmt.Sprint(i)).Add(t.Context(), 1)
		require.NoError(t, err)
		_, err = bank.NewWalletClient(conn).Ref(fmt.Sprint(i)).Add(t.Context(), 1)
		require.NoError(t, err)
	}

	operate := func(name string) *admin.Client {
		c, err := admin.Dial(t.Context(), admin.Options{
			Cluster: "e2e", Name: name, Transport: natstransport.New(url(name)), AnswerTimeout: time.Second,
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	bob, ann := operate("bob"), operate("ann")
	for _, c := range []*admin.Client{bob, ann} {
		v, err := c.Members(t.Context())
		require.NoError(t, err)
		require.Len(t, v.Members, 2)
	}
	_, err = bob.Leave(t.Context(), "b")
	require.Error(t, err)
	v, err := bob.Members(t.Context())
	require.NoError(t, err)
	require.Len(t, v.Members, 2, "a reader made a member leave")
	_, err = ann.Leave(t.Context(), "b")
	require.NoError(t, err)
	for i := range 20 {
		got, err := bank.NewWalletClient(conn).Ref(fmt.Sprint(i)).Add(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, int64(2), got, "after the move")
	}
}

// TestOperatorRights: with the printed rights an operator can give each command, and a reader none.
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
		if err != nil { // an error that there is nothing to do in this cluster is an answer, too
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
