package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// serviceAgain bounds the time until calls succeed again after a problem of the store has ended.
const serviceAgain = 60 * time.Second

// A walletCluster is two nodes that host wallets over a real server with JetStream. It counts the
// acknowledged additions to each wallet.
type walletCluster struct {
	t      *testing.T
	server *natsproc.Server
	conf   string // the server's configuration file
	disk   string // the server's folder of streams
	caller *shard.Node
	nodes  []*shard.Node
	acked  map[string]int64
	doubt  map[string]int64 // added by calls whose outcome is unknown
}

// startWallets starts a server and the nodes. more is added to the server's configuration.
func startWallets(t *testing.T, disk, more string) *walletCluster {
	t.Helper()
	c := &walletCluster{
		t: t, disk: disk, conf: filepath.Join(t.TempDir(), "nats.conf"),
		acked: map[string]int64{}, doubt: map[string]int64{},
	}
	c.configure(c.jetStream() + more)
	c.server = natsproc.Start(t, "-c", c.conf)
	c.startNodes()
	return c
}

func (c *walletCluster) jetStream() string {
	return fmt.Sprintf("jetstream {store_dir: %q}\n", c.disk)
}

func (c *walletCluster) configure(text string) {
	c.t.Helper()
	if err := os.WriteFile(c.conf, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// restart ends the server, calls change, and starts the server again.
func (c *walletCluster) restart(change func()) {
	c.t.Helper()
	if err := c.server.Stop(); err != nil {
		c.t.Fatal(err)
	}
	change()
	if err := c.server.Start(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *walletCluster) startNodes() {
	c.t.Helper()
	c.nodes = nil
	for _, name := range []string{"a", "b"} {
		s, err := natsstore.Open(c.t.Context(), c.server.URL(), natsstore.Config{
			Name: "bank", Partitions: 1, Timeout: time.Second, ConnectOptions: []nats.Option{nats.UserInfo("store", "x")},
		})
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(s.Close)
		n := shard.New(shard.Config{
			Cluster: "wallets", Name: name, Transport: natstransport.New(c.server.URL()), Store: s, Logger: slog.New(slog.DiscardHandler),
		})
		if err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = n.Close() })
		ctx, cancel := context.WithTimeout(c.t.Context(), serviceAgain)
		err = n.Start(ctx)
		cancel()
		if err != nil {
			c.t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
	}
	c.caller = c.nodes[0]
}

// add adds 1 to a wallet, and records whether that was acknowledged.
func (c *walletCluster) add(id string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), within)
	defer cancel()
	_, err := bank.NewWalletClient(c.caller).Ref(id).Add(ctx, 1)
	switch {
	case err == nil:
		c.acked[id]++
	case shard.OutcomeOf(err) == shard.Unknown:
		c.doubt[id]++
	}
	return err
}

var walletIDs = []string{"v-0", "v-1", "v-2", "v-3", "v-4", "v-5"}

// serves requires that an addition to every wallet succeeds. It repeats failed calls for at most
// serviceAgain.
func (c *walletCluster) serves() {
	c.t.Helper()
	deadline := time.Now().Add(serviceAgain)
	for _, id := range walletIDs {
		for {
			err := c.add(id, 5*time.Second)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				c.t.Fatalf("no service when the cause is gone: %v\nthe server: %s", err, c.server.Output())
			}
		}
	}
}

// wantRefusal repeats additions to all wallets until an error names its wallet and contains all
// words. Errors before that may say that the store does not answer yet.
func (c *walletCluster) wantRefusal(words ...string) {
	c.t.Helper()
	var last error
	for deadline := time.Now().Add(serviceAgain); time.Now().Before(deadline); {
		for _, id := range walletIDs {
			err := c.add(id, 5*time.Second)
			if err == nil {
				continue
			}
			last = err
			named := strings.Contains(err.Error(), id)
			for _, word := range words {
				named = named && strings.Contains(err.Error(), word)
			}
			if named {
				c.t.Logf("refused: %v", err)
				return
			}
		}
	}
	c.t.Errorf("got %v, want an error that names the wallet and %q", last, words)
}

// check compares each wallet with the acknowledged additions, now and after a restart of all nodes.
func (c *walletCluster) check() {
	c.t.Helper()
	c.totals("before the restart")
	for _, n := range c.nodes {
		_ = n.Close()
	}
	c.startNodes()
	c.totals("after the restart")
}

func (c *walletCluster) totals(when string) {
	c.t.Helper()
	for _, id := range walletIDs {
		var got int64
		var err error
		for deadline := time.Now().Add(serviceAgain); time.Now().Before(deadline); {
			ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
			got, err = bank.NewWalletClient(c.caller).Ref(id).Get(ctx)
			if cancel(); err == nil {
				break
			}
		}
		if err != nil {
			c.t.Fatalf("%s: %v", when, err)
		}
		if got < c.acked[id] || got > c.acked[id]+c.doubt[id] {
			c.t.Errorf("%s: %s has %d: want %d acknowledged, and up to %d in doubt", when, id, got, c.acked[id], c.doubt[id])
		}
	}
}

func (c *walletCluster) admin() jetstream.JetStream {
	c.t.Helper()
	nc, err := nats.Connect(c.server.URL(), nats.UserInfo("store", "x"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}

// TestBadStore breaks the store of a running cluster in several ways. Errors name the entity and
// the remedy, nothing acknowledged is lost later, and calls succeed again when the cause has ended.
func TestBadStore(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it waits for real time-outs")
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"JetStream disabled", badStoreDisabled},
		{"rights missing", badStoreRights},
		{"stream deleted", badStoreDeleted},
		{"slower than the deadline", badStoreSlow},
		{"entity larger than the payload limit", badStorePayload},
		{"corrupt append", badStoreAppend},
		{"record of a newer format", badStoreNewer},
	} {
		t.Run(test.name, test.run)
	}
}

func badStoreDisabled(t *testing.T) {
	c := startWallets(t, t.TempDir(), "")
	c.serves()
	c.restart(func() { c.configure("") })
	c.wantRefusal("JetStream", "-js")
	c.restart(func() { c.configure(c.jetStream()) })
	c.serves()
	c.check()
}

func badStoreRights(t *testing.T) {
	users := func(deny string) string {
		return fmt.Sprintf("no_auth_user: node\nauthorization {users: [{user: node, password: x}, {user: store, password: x, permissions: {publish: {deny: [%s]}}}]}\n", deny)
	}
	c := startWallets(t, t.TempDir(), users(""))
	c.serves()
	c.restart(func() { c.configure(c.jetStream() + users(`"bank.t.>"`)) })
	c.wantRefusal("no right to publish", "bank.t.Wallet")
	c.restart(func() { c.configure(c.jetStream() + users("")) })
	c.serves()
	c.check()
}

func badStoreDeleted(t *testing.T) {
	c := startWallets(t, t.TempDir(), "")
	c.serves()
	backup := filepath.Join(t.TempDir(), "backup")
	c.restart(func() {
		if err := os.CopyFS(backup, os.DirFS(c.disk)); err != nil {
			t.Fatal(err)
		}
	})
	if err := c.admin().DeleteStream(t.Context(), "bank_Wallet_log_0"); err != nil {
		t.Fatal(err)
	}
	c.wantRefusal("bank_Wallet_log_0 is not there", "restore it")
	for _, n := range c.nodes { // the nodes may have written heads that the backup lacks
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.restart(func() {
		if err := errors.Join(os.RemoveAll(c.disk), os.CopyFS(c.disk, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
	})
	c.startNodes()
	c.serves()
	c.check()
}

func badStoreSlow(t *testing.T) {
	c := startWallets(t, t.TempDir(), "")
	c.serves()
	// Some calls do not begin, because the home's lease ends soon after the server stops.
	for range 10 {
		if err := c.server.Pause(); err != nil {
			t.Fatal(err)
		}
		for _, id := range walletIDs { // the server stops a moment after the command
			if err := c.add(id, time.Second); err != nil && !strings.Contains(err.Error(), id) {
				t.Errorf("got %v, want it to name %s", err, id)
			}
		}
		if err := c.server.Resume(); err != nil {
			t.Fatal(err)
		}
		c.serves()
		if len(c.doubt) > 0 {
			break
		}
	}
	if len(c.doubt) == 0 {
		t.Errorf("no call was in doubt while the server stood still")
	}
	c.check()
}

func badStorePayload(t *testing.T) {
	c := startWallets(t, t.TempDir(), "max_payload: 64KB\n")
	c.serves()
	ctx, cancel := context.WithTimeout(t.Context(), serviceAgain)
	defer cancel()
	err := bank.NewWalletClient(c.caller).Ref("v-0").Fill(ctx, 100<<10)
	if !errors.Is(err, shard.ErrTooLarge) || shard.OutcomeOf(err) != shard.NotExecuted {
		t.Errorf("got %v, want ErrTooLarge of a call that changed nothing", err)
	}
	for _, want := range []string{`entity "v-0"`, "keep less in one entity", "max_payload"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to have %s", err, want)
		}
	}
	c.serves()
	c.check()
}
