package shard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/fixture/shop"
	shard "github.com/shardgen/shardgen/runtime"
	memorystore "github.com/shardgen/shardgen/store/memory"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

// buyers is a cluster of buyers and sellers, which show their calls to the test.
type buyers struct {
	*cluster
	store  *memorystore.Server
	mu     sync.Mutex
	seen   []string
	intake []shard.HostOption // of both types
	panics bool               // methods panic after they have shown their call
}

func newBuyers(t *testing.T, tune func(*shard.Config), opts []shard.HostOption, names ...string) *buyers {
	g := &buyers{cluster: emptyCluster(t), store: memorystore.New(), intake: append(opts, shard.MinHosts(len(names)))}
	g.tune = func(c *shard.Config) {
		c.Store = g.store.Client()
		if tune != nil {
			tune(c)
		}
	}
	for _, name := range names {
		n := shard.New(g.config(name))
		g.host(n)
		require.NoError(t, n.Start(testContext(t)))
		g.nodes[name] = n
	}
	return g
}

func (g *buyers) host(n *shard.Node) {
	callers, sellers := shop.NewBuyerClient(n), shop.NewSellerClient(n)
	require.NoError(g.t, shop.HostBuyer(n, func() *shop.Buyer {
		return &shop.Buyer{
			Seen: g.see, Buyers: func(id string) shop.BuyerRef { return callers.Ref(id) },
			Seller: func(id string) shop.SellerRef { return sellers.Ref(id) }, Tells: func(id string) shop.SellerTell { return sellers.Tell(id) },
		}
	}, g.intake...))
	require.NoError(g.t, shop.HostSeller(n, func() *shop.Seller {
		return &shop.Seller{
			Seen: g.see, Buyers: func(id string) shop.BuyerTell { return callers.Tell(id) },
			Peers: func(id string) shop.SellerTell { return sellers.Tell(id) },
		}
	}, g.intake...))
}

func (g *buyers) see(i shard.Info) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, shop.Describe(i))
	if g.panics {
		panic("noted")
	}
}

// TestPanicOfATell: a durable entity tells, and the told method panics. At a volatile receiver it does
// not run again. At a durable one it runs again after a pause, once.
func TestPanicOfATell(t *testing.T) {
	t.Parallel()
	g := newBuyers(t, nil, nil, "a")
	g.panics = true
	require.NoError(t, shop.NewSellerClient(g.nodes["a"]).Ref("k").Tell(testContext(t), "to", "", ""))
	noted := func(kind string) (n int) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, s := range g.seen {
			if strings.Contains(s, kind+"/to.Note") {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool { return noted("Seller") >= 3 }, testPatience, testTick)
	require.Equal(t, 1, noted("Buyer"))
}

// await waits until exactly the wanted calls were shown, in any order, and forgets them.
func (g *buyers) await(want ...string) {
	g.t.Helper()
	slices.Sort(want)
	var got []string
	require.Eventually(g.t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		got = slices.Clone(g.seen)
		return len(got) >= len(want)
	}, testPatience, testTick, "want %v", want)
	slices.Sort(got)
	require.Equal(g.t, want, got)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = nil
}

// at returns an id whose entity lives at the node.
func (g *buyers) at(kind, node string) string {
	g.t.Helper()
	for i := range 10_000 {
		id := fmt.Sprint("at-", node, "-", i)
		for {
			where, err := g.nodes[node].Locate(testContext(g.t), kind, id)
			require.NoError(g.t, err)
			if where.Node == node {
				return id
			}
			if where.Node != "" {
				break
			}
			_, _ = shop.NewBuyerClient(g.nodes[node]).Ref(id).Who(testContext(g.t)) // places the kind
			_, _ = shop.NewSellerClient(g.nodes[node]).Ref(id).Count(testContext(g.t))
		}
	}
	g.t.Fatal("no such id")
	return ""
}

func header(t *testing.T, key, value string) context.Context {
	t.Helper()
	ctx, err := shard.WithHeader(testContext(t), key, value)
	require.NoError(t, err)
	return ctx
}

// TestCallInfo: a method learns its caller and the headers. The caller is in the same process,
// another member, a client or an entity; it calls or tells; the type is volatile or durable.
func TestCallInfo(t *testing.T) {
	t.Parallel()
	g := newBuyers(t, nil, nil, "a", "b")
	conn := g.dial("web")
	callers := map[string]shard.Caller{"member a": g.nodes["a"], "member b": g.nodes["b"], "client web": conn}
	for _, home := range []string{"a", "b"} {
		id, seller := g.at("Buyer", home), g.at("Seller", home)
		for name, caller := range callers {
			refs, sellers := shop.NewBuyerClient(caller), shop.NewSellerClient(caller)
			for range 2 { // the first activates
				got, err := refs.Ref(id).Who(header(t, "Tenant", "acme"))
				require.NoError(t, err)
				require.Equal(t, name+": Buyer/"+id+".Who tenant=acme", got)
				got, err = sellers.Ref(seller).Who(header(t, "tenant", "acme"))
				require.NoError(t, err)
				require.Equal(t, name+": Seller/"+seller+".Who tenant=acme", got)
				got, err = sellers.Ref(seller).Look(header(t, "tenant", "acme"))
				require.NoError(t, err)
				require.Equal(t, name+": Seller/"+seller+".Look tenant=acme", got)
			}
			got, err := refs.Ref(id).Who(testContext(t))
			require.NoError(t, err)
			require.Equal(t, name+": Buyer/"+id+".Who", got)

			require.NoError(t, refs.Tell(id).Note(testContext(t)))
			g.await(name + ": Buyer/" + id + ".Note told")
			require.NoError(t, refs.Tell(id).Note(header(t, "tenant", "acme")))
			g.await(name + ": Buyer/" + id + ".Note told tenant=acme")
			require.NoError(t, sellers.Tell(seller).Note(header(t, "tenant", "acme")))
			g.await(name + ": Seller/" + seller + ".Note told tenant=acme")
		}
	}
}

// TestCallInfoOfNestedCalls: the caller of a nested call is the entity that makes it. Headers are
// passed on only if the method does so.
func TestCallInfoOfNestedCalls(t *testing.T) {
	g := newBuyers(t, nil, nil, "a", "b")
	conn := g.dial("web")
	for _, home := range []string{"a", "b"} {
		first := g.at("Buyer", home)
		for _, target := range []string{"a", "b"} {
			to, seller := g.at("Buyer", target)+"", g.at("Seller", target)
			if to == first {
				continue // the chain would be circular
			}
			refs := shop.NewBuyerClient(conn)
			by := "member " + home + " for Buyer/" + first + ": "
			got, err := refs.Ref(first).Pass(header(t, "tenant", "acme"), to, "", "")
			require.NoError(t, err)
			require.Equal(t, by+"Buyer/"+to+".Who", got)
			got, err = refs.Ref(first).Pass(header(t, "tenant", "acme"), to, "tenant", "other")
			require.NoError(t, err)
			require.Equal(t, by+"Buyer/"+to+".Who tenant=other", got)
			got, err = refs.Ref(first).PassSeller(header(t, "tenant", "acme"), seller, "tenant", "other")
			require.NoError(t, err)
			require.Equal(t, by+"Seller/"+seller+".Who tenant=other", got)
			require.NoError(t, refs.Ref(first).TellSeller(header(t, "tenant", "acme"), seller, "trace", "1"))
			g.await("member " + home + ": Seller/" + seller + ".Note told trace=1")
		}
		// Tells of a durable turn wait in its log, with their headers.
		seller, to := g.at("Seller", home), g.at("Buyer", home)
		require.NoError(t, shop.NewSellerClient(conn).Ref(seller).Tell(header(t, "tenant", "acme"), "else", "trace", "2"))
		g.await("member "+home+": Buyer/else.Note told trace=2", "member "+home+": Seller/else.Note told trace=2")
		require.NoError(t, shop.NewSellerClient(conn).Ref(seller).Tell(header(t, "tenant", "acme"), to, "", ""))
		g.await("member "+home+": Buyer/"+to+".Note told", "member "+home+": Seller/"+to+".Note told")
	}
}

// TestHeaderBounds: WithHeader fails beyond the bounds, and replaces a header of the same key.
func TestHeaderBounds(t *testing.T) {
	ctx := context.Background()
	for key, want := range map[string]string{"": "key", "a b": "key", strings.Repeat("k", 65): "key", "ü": "key"} {
		_, err := shard.WithHeader(ctx, key, "v")
		require.ErrorContains(t, err, want, key)
	}
	for i := range 32 {
		var err error
		ctx, err = shard.WithHeader(ctx, fmt.Sprint("key-", i), "v")
		require.NoError(t, err)
	}
	_, err := shard.WithHeader(ctx, "one-more", "v")
	require.ErrorContains(t, err, "at most 32")
	_, err = shard.WithHeader(ctx, "KEY-3", "again")
	require.NoError(t, err, "it replaces one")
	_, err = shard.WithHeader(ctx, "key-3", strings.Repeat("x", 4096))
	require.ErrorContains(t, err, "at most 4096")
	_, ok := shard.CallInfo(ctx)
	require.False(t, ok, "it belongs to no turn")
}

// TestCallInfoOfGateway: the method learns the name of a caller in another language from the
// request's subject, and gets its headers, whether the node that takes the request or another node
// runs the method.
func TestCallInfoOfGateway(t *testing.T) {
	server, err := embedded.Start(embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(server.Shutdown)
	g := newBuyers(t, func(c *shard.Config) {
		c.Transport, c.Gateway = natstransport.New(server.ClientURL()), true
	}, nil, "a", "b")
	nc, err := nats.Connect(server.ClientURL(), nats.CustomInboxPrefix("_INBOX.php"))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	for _, subject := range []string{"Buyer." + "Who." + g.at("Buyer", "a"), "Buyer.Who." + g.at("Buyer", "b"), "Seller.Who." + g.at("Seller", "a"), "Seller.Who." + g.at("Seller", "b")} {
		for range 8 { // either node takes it
			m := nats.NewMsg("sh.test.g.php." + subject)
			m.Data = []byte("{}")
			m.Header.Set("Tenant", "acme")
			answer, err := nc.RequestMsgWithContext(testContext(t), m)
			require.NoError(t, err)
			word := strings.Split(subject, ".")
			require.JSONEq(t, fmt.Sprintf(`{"result1":"gateway php: %s/%s.Who tenant=acme"}`, word[0], word[2]), string(answer.Data))
		}
	}
	for key, want := range map[string]string{"many": "at most 32", "long": "at most 4096", "bad key": "key", "twice": "twice"} {
		m := nats.NewMsg("sh.test.g.php.Buyer.Who.x")
		switch key {
		case "many":
			for i := range 33 {
				m.Header.Set(fmt.Sprint("key-", i), "")
			}
		case "long":
			m.Header.Set(key, strings.Repeat("x", 4096))
		case "twice":
			m.Header.Add(key, "1")
			m.Header.Add(key, "2")
		default:
			m.Header.Set("bad!key", "")
		}
		answer, err := nc.RequestMsgWithContext(testContext(t), m)
		require.NoError(t, err)
		require.Contains(t, answer.Header.Get("Shard-Error"), want)
		require.Equal(t, "not executed", answer.Header.Get("Shard-Outcome"))
	}
}
