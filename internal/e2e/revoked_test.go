package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/e2e/hostile"
	"github.com/shardgen/shardgen/internal/test/fixture"
	"github.com/shardgen/shardgen/internal/wire/rights"
	"github.com/shardgen/shardgen/runtime/admin"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// promptly bounds the time after which an error names a missing right. It is a second if no other
// tests load the machine.
const promptly = 20 * time.Second

// attempt bounds one use of a right. As long as the right is still in force after the reload, the
// test uses it again.
const attempt = 5 * time.Second

// TestRevokedRightIsNamed revokes each right that a running process needs, by a reload of the
// server's configuration. Each use of the right soon fails with an error that names it.
func TestRevokedRightIsNamed(t *testing.T) {
	t.Parallel()
	worker, web := rights.Worker("e2e", "bank"), rights.Client("e2e", "web")
	ann, php := rights.Operator("e2e", "ann"), rights.Gateway("e2e", "php")
	all := map[string]rights.Rights{"host": rights.Worker("e2e", "")}
	type taken struct {
		role, right, user string
		left              rights.Rights
	}
	var tries []taken
	for role, r := range map[string]rights.Rights{"worker": worker, "web": web, "ann": ann, "php": php} {
		for i := range len(r.Publish) + len(r.Subscribe) {
			left, right := without(r, i)
			if role == "worker" && right != "bank.>" && right != "sh.e2e.m.>" {
				continue // TestEachRightIsNamed has the rights that a member needs when it opens
			}
			user := fmt.Sprint(role, "-", i)
			all[user] = r
			tries = append(tries, taken{role, right, user, left})
		}
	}
	dir := t.TempDir()
	server, err := hostile.Guard(dir, all)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })
	url := func(user string) string { return hostile.URL(server, user) }
	cluster := newCluster(t, url("host"))
	config := cluster.config("a")
	config.Gateway = true
	cluster.run(cluster.host(config))

	for _, try := range tries {
		t.Run(try.user+" without "+try.right, func(t *testing.T) {
			use := user(t, try.role, try.right, try.user, url)
			require.NoError(t, use(t.Context()), "with all rights")
			all[try.user] = try.left
			require.NoError(t, hostile.Configure(dir, all))
			reloads := strings.Count(server.Output(), "Reloaded server configuration")
			require.NoError(t, server.Reload())
			await(t.Context(), t, "the server has reloaded", func() bool {
				return strings.Count(server.Output(), "Reloaded server configuration") > reloads
			})
			begin := time.Now()
			for err := error(nil); err == nil || !strings.Contains(err.Error(), rightOf(try.right)); {
				ctx, cancel := context.WithTimeout(t.Context(), attempt)
				err = use(ctx)
				cancel()
				if time.Since(begin) > promptly {
					t.Fatalf("after %v: %v, want an error with %q", time.Since(begin), err, rightOf(try.right))
				}
				if err != nil {
					t.Logf("after %v: %v", time.Since(begin).Round(time.Millisecond), err)
				}
			}
		})
	}
}

// user returns a function in which a connected process of a role uses the right.
func user(t *testing.T, role, right, user string, url func(string) string) func(context.Context) error {
	t.Helper()
	switch {
	case role == "worker" && right == "bank.>":
		backend, err := natsstore.Open(t.Context(), url(user), natsstore.Config{Name: "bank", Partitions: 1, Timeout: 30 * time.Second})
		require.NoError(t, err)
		t.Cleanup(backend.Close)
		at, last := store.Shard{Type: "T", Number: 1}, store.Start
		return func(ctx context.Context) error {
			next, err := backend.Shards().Append(ctx, at, last, []byte("x"))
			if err == nil {
				last = next
			}
			return err
		}
	case role == "worker":
		return adds(fixture.NewAccountClient(newCluster(t, url(user)).startEmpty("b")))
	case role == "web":
		return adds(fixture.NewAccountClient(newCluster(t, url(user)).dial("web")))
	case role == "ann":
		c, err := admin.Dial(t.Context(), admin.Options{Cluster: "e2e", Name: "ann", Transport: natstransport.New(url(user))})
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return func(ctx context.Context) error {
			_, err := c.Members(ctx)
			return err
		}
	}
	// A program in another language makes a connection for each call here, and gets its library's
	// error.
	return func(ctx context.Context) error { return beCaller(ctx, url(user)) }
}

func adds(accounts *fixture.AccountClient) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := accounts.Ref("alice").Add(ctx, 1)
		return err
	}
}
