package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// guarded starts a server on which each user has the rights that shardctl permissions prints, and a
// member that hosts accounts. It returns the environment of a user.
func guarded(t *testing.T, config shard.Config) (env func(user string) map[string]string, node *shard.Node) {
	t.Helper()
	users := map[string]rights.Rights{
		"worker": rights.Worker("shop", ""), "ann": rights.Operator("shop", "ann"), "bob": rights.Reader("shop", "bob"),
		"php": rights.Gateway("shop", "php"), "deaf": {Publish: rights.Gateway("shop", "deaf").Publish},
	}
	server, err := hostile.Guard(t.TempDir(), users)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	config.Cluster, config.Name, config.Transport = "shop", "n1", natstransport.New(hostile.URL(server, "worker"))
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	n := shard.New(config)
	t.Cleanup(func() { _ = n.Close() })
	require.NoError(t, fixture.HostAccount(n, func() *fixture.Account { return &fixture.Account{} }))
	require.NoError(t, fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{Node: "n1"} }))
	require.NoError(t, n.Start(t.Context()))
	return func(user string) map[string]string {
		return map[string]string{"NATS_URL": hostile.URL(server, user), "SHARD_CLUSTER": "shop", "SHARD_OPERATOR": user}
	}, n
}

// TestCallNeedsTheRightsOfACaller: call works with the rights of a gateway's caller alone. Without
// them it ends at once, says that the method has not run, and names the right.
func TestCallNeedsTheRightsOfACaller(t *testing.T) {
	t.Parallel()
	env, _ := guarded(t, shard.Config{Gateway: true})
	shardctl(t, env("php"), `call Account Add ann {"n":2}`).check(t, "a caller", exitOK, `{"balance":2}`, "")
	for user, missing := range map[string]string{
		"ann": `Permissions Violation for Subscription to "_INBOX.ann.`, "bob": `Permissions Violation for Subscription to "_INBOX.bob.`,
		"deaf": `Permissions Violation for Subscription to "_INBOX.deaf.`,
	} {
		began := time.Now()
		o := shardctl(t, env(user), `call Account Add ann {"n":2} -timeout 1m`)
		o.check(t, user, exitFailed, "", missing)
		o.check(t, user, exitFailed, "", "not executed; grant the right: shardctl permissions gateway -cluster shop -name "+user)
		require.Less(t, time.Since(began), 30*time.Second, "%s waits for an answer", user)
		require.NotContains(t, o.stderr, "may have run")
	}
	o := shardctl(t, env("php"), `call Account Add ann {"n":2} -name ann -json`)
	o.check(t, "another's name", exitFailed, `"outcome": "not executed"`, "")

	var c jsonCall
	o = shardctl(t, env("php"), `call Account Add ann {"n":3} -json`)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &c), o.stderr)
	require.JSONEq(t, `{"balance":5}`, string(c.Result), "the calls that were refused have run")
	require.Equal(t, executed, c.Outcome)
	o = shardctl(t, env("php"), `call Account Dance ann -json`)
	o.check(t, "no such method", exitFailed, `"outcome": "not executed"`, "outcome: not executed")
}

// TestCallSingleton: a singleton is called under the id singleton, and a call without an id says so.
func TestCallSingleton(t *testing.T) {
	t.Parallel()
	env, _ := guarded(t, shard.Config{Gateway: true})
	shardctl(t, env("php"), "call Chief Next singleton").check(t, "with its id", exitOK, `{"n":1,"node":"n1"}`, "")
	shardctl(t, env("php"), "call Chief Next").check(t, "without an id", exitUsage, "", "say which entity (a singleton has the id singleton, a pool numbers and any)")
}

// TestCallMayNotPublish: a caller that may receive answers, but not send the request, gets an error
// that says so.
func TestCallMayNotPublish(t *testing.T) {
	t.Parallel()
	reads := rights.Gateway("shop", "php")
	reads.Publish = []string{"sh.shop.g.php.Account.Get.>"}
	server, err := hostile.Guard(t.TempDir(), map[string]rights.Rights{"php": reads})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	env := map[string]string{"NATS_URL": hostile.URL(server, "php"), "SHARD_CLUSTER": "shop", "SHARD_OPERATOR": "php"}
	began := time.Now()
	o := shardctl(t, env, `call Account Add ann -json -timeout 1m`)
	o.check(t, "call", exitFailed, `"outcome": "not executed"`, `Permissions Violation for Publish to "sh.shop.g.php.Account.Add.ann"`)
	require.Less(t, time.Since(began), 30*time.Second)
}

// TestCallWithACommand: the key of -command reaches the gateway, which refuses it for a type that is
// not durable.
func TestCallWithACommand(t *testing.T) {
	t.Parallel()
	env, _ := guarded(t, shard.Config{Gateway: true})
	shardctl(t, env("php"), `call -command pay-7 Account Add ann {"n":2}`).check(t, "with a key", exitFailed, "", "Idempotency-Key: Account is not durable")
}
