package tenants_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/examples/tenants"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

var rights = tenants.Rights{
	"client web-acme": {"acme"},
	"client web-zen":  {"zen"},
	"client admin":    {"acme", "zen"},
	"gateway php":     {"acme"},
}

// start starts a server, and two members that share the folders.
func start(t *testing.T) (ctx context.Context, url string, nodes []*shard.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	server, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	for _, name := range []string{"a", "b"} {
		cfg := config(server.ClientURL(), name)
		cfg.Gateway, cfg.Interceptors = true, []shard.Interceptor{tenants.PassOn}
		n := shard.New(cfg)
		t.Cleanup(func() { _ = n.Close() })
		if err := tenants.Host(n, rights); err != nil {
			t.Fatal(err)
		}
		if err := n.Start(ctx); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	return ctx, server.ClientURL(), nodes
}

func config(url, name string) shard.Config {
	return shard.Config{
		Cluster: "tenants", Name: name, Transport: natstransport.New(url), CallTimeout: 30 * time.Second,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

func dial(ctx context.Context, t *testing.T, url, name, tenant string) *tenants.FolderClient {
	t.Helper()
	cfg := config(url, name)
	cfg.Interceptors = []shard.Interceptor{tenants.For(tenant)}
	conn, err := shard.Dial(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return tenants.NewFolderClient(conn)
}

// TestTenantsAreKeptApart checks that clients and entities can call only the folders of their
// tenant, both in their own process and in another.
func TestTenantsAreKeptApart(t *testing.T) {
	ctx, url, nodes := start(t)
	acme, zen := dial(ctx, t, url, "web-acme", "acme"), dial(ctx, t, url, "web-zen", "zen")
	liar, admin := dial(ctx, t, url, "web-zen", "acme"), dial(ctx, t, url, "admin", "zen")
	inside, err := shard.WithHeader(ctx, "tenant", "acme")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // on both members
		name := fmt.Sprint("folder-", i)
		mine, theirs := tenants.FolderID("acme/"+name), tenants.FolderID("zen/"+name)
		for what, err := range map[string]error{
			"its own":            acme.Ref(mine).Put(ctx, "one"),
			"of an admin":        admin.Ref(theirs).Put(ctx, "two"),
			"of the other":       zen.Ref(theirs).Put(ctx, "three"),
			"between its own":    acme.Ref(mine).CopyTo(ctx, mine+"-copy"),
			"near, of a member":  tenants.NewFolderClient(nodes[0]).Ref(mine).Put(inside, "four"),
			"near, of the other": tenants.NewFolderClient(nodes[1]).Ref(mine).Put(inside, "five"),
		} {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		for what, err := range map[string]error{
			"another tenant's":                    acme.Ref(theirs).Put(ctx, "x"),
			"in the name of another":              liar.Ref(mine).Put(ctx, "x"),
			"the name alone does not help either": liar.Ref(theirs).Put(ctx, "x"),
			"without a tenant, near":              tenants.NewFolderClient(nodes[0]).Ref(mine).Put(ctx, "x"),
			"without a tenant, from b":            tenants.NewFolderClient(nodes[1]).Ref(mine).Put(ctx, "x"),
			"for another, near":                   tenants.NewFolderClient(nodes[0]).Ref(theirs).Put(inside, "x"),
			"for another, from b":                 tenants.NewFolderClient(nodes[1]).Ref(theirs).Put(inside, "x"),
		} {
			if !errors.Is(err, tenants.ErrForeign) || !errors.Is(err, shard.ErrRefused) || shard.OutcomeOf(err) != shard.NotExecuted {
				t.Fatalf("%s: got %v, want ErrForeign, not executed", what, err)
			}
		}
		if err := acme.Ref(mine).CopyTo(ctx, theirs); err == nil || errors.Is(err, shard.ErrRefused) {
			t.Fatalf("a copy to another tenant: got %v, want the error of CopyTo", err)
		}
		got, err := zen.Ref(theirs).List(ctx)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, []string{"three", "two"}) {
			t.Fatalf("the folder of zen has %q, %v", got, err)
		}
	}
}

// TestGatewayCallersHaveTenantsToo checks a caller without a shardgen library: its subject names
// the caller, and a header names the tenant.
func TestGatewayCallersHaveTenantsToo(t *testing.T) {
	ctx, url, _ := start(t)
	nc, err := nats.Connect(url, nats.CustomInboxPrefix("_INBOX.php"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for i := range 20 {
		for _, c := range []struct{ tenant, id, outcome string }{
			{"acme", "acme=2F", "executed"},
			{"acme", "zen=2F", "not executed"},
			{"zen", "zen=2F", "not executed"},
			{"", "acme=2F", "not executed"},
		} {
			m := nats.NewMsg(fmt.Sprintf("sh.tenants.g.php.Folder.Put.%s%d", c.id, i))
			m.Data, _ = json.Marshal(map[string]string{"text": "x"})
			if c.tenant != "" {
				m.Header.Set("Tenant", c.tenant)
			}
			answer, err := nc.RequestMsgWithContext(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Header.Get("Shard-Outcome"); got != c.outcome {
				t.Fatalf("%+v: got %s, want %s: %s", c, got, c.outcome, answer.Data)
			}
		}
	}
}
