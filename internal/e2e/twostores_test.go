package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

func walletNode(t *testing.T, url, name string, s store.Backend) *shard.Node {
	t.Helper()
	n := shard.New(shard.Config{Cluster: "wallets", Name: name, Transport: natstransport.New(url), Store: s})
	t.Cleanup(func() { _ = n.Close() })
	if err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }); err != nil {
		t.Fatal(err)
	}
	return n
}

func openStore(t *testing.T, url string, config natsstore.Config) store.Backend {
	t.Helper()
	s, err := natsstore.Open(t.Context(), url, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func starts(t *testing.T, n *shard.Node) error {
	ctx, cancel := context.WithTimeout(t.Context(), serviceAgain)
	defer cancel()
	return n.Start(ctx)
}

// TestMembersWithOtherStores: a member whose store is not the cluster's is refused, and the error
// names both stores.
func TestMembersWithOtherStores(t *testing.T) {
	server, other := natsproc.Start(t, "-js", "-sd", t.TempDir()), natsproc.Start(t, "-js", "-sd", t.TempDir())
	first := walletNode(t, server.URL(), "first", openStore(t, server.URL(), natsstore.Config{Name: "bank"}))
	if err := starts(t, first); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		store store.Backend
	}{
		{"of another name", openStore(t, server.URL(), natsstore.Config{Name: "bank2"})},
		{"of another server", openStore(t, other.URL(), natsstore.Config{Name: "bank"})},
		{"in memory", memory.New().Client()},
	} {
		err := starts(t, walletNode(t, server.URL(), "second", test.store))
		for _, want := range []string{"Config.Store is", " of second\" at second", " of first\" at first"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a store %s: got %v, want it to name %q", test.name, err, want)
			}
		}
	}
	if err := starts(t, walletNode(t, server.URL(), "third", openStore(t, server.URL(), natsstore.Config{Name: "bank"}))); err != nil {
		t.Errorf("the same store: %v", err)
	}
}

// TestStoreOfALeafNode: a leaf node has a JetStream of its own. Members at the leaf node use the
// JetStream of the hub by naming its domain, and are refused without the domain.
func TestStoreOfALeafNode(t *testing.T) {
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	server := func(text string) *natsproc.Server {
		path := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return natsproc.Start(t, "-c", path)
	}
	hub := server(fmt.Sprintf("server_name: hub\njetstream {store_dir: %q, domain: hub}\nleafnodes {listen: %q}\n", t.TempDir(), address))
	leaf := server(fmt.Sprintf("server_name: leaf\njetstream {store_dir: %q, domain: leaf}\nleafnodes {remotes: [{url: \"nats-leaf://%s\"}]}\n", t.TempDir(), address))
	atHub := walletNode(t, hub.URL(), "hub", openStore(t, hub.URL(), natsstore.Config{Name: "bank"}))
	if err := starts(t, atHub); err != nil {
		t.Fatal(err)
	}
	if err := starts(t, walletNode(t, leaf.URL(), "leaf", openStore(t, leaf.URL(), natsstore.Config{Name: "bank"}))); err == nil || !strings.Contains(err.Error(), "Config.Store is") {
		t.Errorf("with the leaf's own JetStream: got %v", err)
	}
	if err := starts(t, walletNode(t, leaf.URL(), "leaf", openStore(t, leaf.URL(), natsstore.Config{Name: "bank", Domain: "hub"}))); err != nil {
		t.Fatalf("with the hub's: %v", err)
	}
	for i := range 40 { // some of the wallets live at the leaf's member
		ctx, cancel := context.WithTimeout(t.Context(), serviceAgain)
		total, err := bank.NewWalletClient(atHub).Ref(fmt.Sprint(i)).Add(ctx, 1)
		cancel()
		if err != nil || total != 1 {
			t.Fatalf("wallet %d: %d, %v", i, total, err)
		}
	}
}

// TestStoreIsReplaced: a member ends with an error if its connection comes to another store. Here
// another server takes the place of the first one.
func TestStoreIsReplaced(t *testing.T) {
	disk := t.TempDir()
	server := natsproc.Start(t, "-js", "-sd", disk)
	n := walletNode(t, server.URL(), "first", openStore(t, server.URL(), natsstore.Config{Name: "bank", Timeout: time.Second}))
	if err := starts(t, n); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(disk, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	openStore(t, server.URL(), natsstore.Config{Name: "bank"}) // as if another program had created the streams again
	select {
	case <-n.Done():
		if err := n.Err(); err == nil || !strings.Contains(err.Error(), "another store answers") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(serviceAgain):
		t.Error("the node goes on with another store")
	}
}
