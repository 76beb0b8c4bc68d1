package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/ops/storeops"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// runJetStream starts a server that keeps its streams in dir.
func runJetStream(t *testing.T, dir string) *natsproc.Server {
	t.Helper()
	s, err := natsproc.Run("-js", "-sd", dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openStore(t *testing.T, url string) *natsstore.Store {
	t.Helper()
	s, err := natsstore.Open(t.Context(), url, natsstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// hostWallets starts a node that hosts wallets.
func hostWallets(t *testing.T, url string) (client *bank.WalletClient, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	if err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return bank.NewWalletClient(n), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// odd is an id that is not text.
const odd = "a/b \xff"

func walletID(i int) string {
	if i == 0 {
		return odd
	}
	return fmt.Sprint("wallet-", i)
}

const wallets = 40

// fillWallets gives each wallet a sum of its own.
func fillWallets(t *testing.T, c *bank.WalletClient) {
	t.Helper()
	for i := range wallets {
		if _, err := c.Ref(walletID(i)).Add(t.Context(), int64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkWallets checks that each wallet has the sum of fillWallets. The wallet with the number in
// but, if given, must be empty.
func checkWallets(t *testing.T, c *bank.WalletClient, but ...int) {
	t.Helper()
	for i := range wallets {
		want := int64(i + 1)
		if len(but) > 0 && but[0] == i {
			want = 0
		}
		if got, err := c.Ref(walletID(i)).Get(t.Context()); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", walletID(i), got, err, want)
		}
	}
}

func TestStoreCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"store", exitUsage, "", "usage: shardctl store COMMAND"},
		{"store help", exitOK, "usage: shardctl store COMMAND", ""},
		{"store dance", exitUsage, "", `unknown command "dance"`},
		{"store export -h", exitOK, "", "Writes entities as JSON"},
		{"store show", exitUsage, "", "say which type (shardctl store show -h)"},
		{"store show Wallet", exitUsage, "", "say which entity"},
		{"store list x y", exitUsage, "", `unexpected argument "y"`},
		{"store list x -n 0", exitUsage, "", "-n is 0: want 1 or more"},
		{"store clear", exitUsage, "", "say which cluster"},
		{"store clear -h", exitOK, "", "usage: shardctl store clear [flags] CLUSTER"},
		{"store clear bank", exitUsage, "", "nothing to clear: give -remembered, -leases, -terms or -table"},
		{"store import", exitUsage, "", "-from is missing: name the file"},
		{"store delete Wallet", exitUsage, "", "all entities of Wallet would be lost: say -force to delete them"},
		{"store repair Wallet a", exitUsage, "", "give one of -from and -drop"},
		{"store repair Wallet a -drop -from f", exitUsage, "", "give one of -from and -drop"},
		{"store list -timeout 0s", exitUsage, "", "want more than 0"},
		{"store list -nats nats://127.0.0.1:1 -timeout 200ms", exitFailed, "", "is a server running there?"},
	} {
		shardctl(t, nil, tt.args).check(t, tt.args, tt.code, tt.stdout, tt.stderr)
	}
}

// TestStoreExportImport moves all entities to an empty store by a file, deletes the type in
// the old store, and refuses both while the type is hosted.
func TestStoreExportImport(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	file := filepath.Join(t.TempDir(), "wallets.json")
	ctl := shardctlAt(t, env["NATS_URL"])
	ctl("store list", exitOK, "Wallet  bank     64      40 ", "")
	ctl("store list -json", exitOK, `"entities": 40`, "")
	ctl("store list Wallet", exitOK, "20 of 40 entities, which have ", "")
	ctl("store list Wallet -n 40", exitOK, `"a/b \xff"  `, "")
	ctl("store list Safe", exitFailed, "", "type Safe is not in the store")
	ctl("store verify", exitOK, "1 types, 64 shards, 40 entities can be read in the store's format (the states in them were not decoded: only a program that hosts the type can do that)", "")
	ctl("store verify Safe", exitFailed, "", "type Safe is not in the store shardgen, which has Wallet")
	ctl("store show Wallet wallet-3", exitOK, "Wallet/wallet-3 in shard ", "")
	ctl("store show Wallet nobody", exitFailed, "", "Wallet/nobody is not in the store")
	ctl("store export Wallet wallet-3", exitOK, `"id":"wallet-3"`, "")
	ctl("store export Wallet nobody", exitFailed, "", "Wallet/nobody is not in the store")
	ctl("store export -o "+file, exitOK, "", "")
	ctl("store import -from "+file, exitFailed, "", "type Wallet is hosted by w1 of cluster bank: stop all nodes that host it first")
	ctl("store delete Wallet -force", exitFailed, "", "type Wallet is hosted by w1")
	ctl("store repair Wallet wallet-3 -drop", exitFailed, "", "type Wallet is hosted by w1")
	stop()
	ctl("store import -from "+file, exitFailed, "", "the shard has been used: command ids, tells and the journal of a shard in use cannot be replaced (shardctl store delete Wallet -force,")
	ctl("store import -replace -from "+file, exitFailed, "", "or -states, to write only the states of entities")
	ctl("store import -states -from "+file, exitFailed, "", "the entity exists already (-replace overwrites it)")
	ctl("store import -states -replace -from "+file, exitOK, "64 shards were used: of them only states were imported", "")

	other := runJetStream(t, t.TempDir()).URL()
	to := map[string]string{"NATS_URL": other}
	shardctl(t, to, "store list").check(t, "store list", exitFailed, "", "no store shardgen at "+other+", and no other (check -nats; -store is natsstore.Config.Name)")
	shardctl(t, env, "store list -store bank").check(t, "another name", exitFailed, "", "no store bank at "+url+", which has: shardgen (give one with -store")
	shardctl(t, to, "store import -from "+file).check(t, "store import", exitOK, "40 entities of 1 types are in the store", "")
	shardctl(t, to, "store verify").check(t, "store verify", exitOK, "40 entities can be read", "")
	client, stop = hostWallets(t, other)
	checkWallets(t, client)
	if got, err := client.Ref(odd).Add(t.Context(), 1); err != nil || got != 2 {
		t.Errorf("after the import: %d, %v, want 2", got, err)
	}
	stop()

	ctl("store delete Wallet -force", exitOK, "type Wallet is deleted", "")
	ctl("store list", exitOK, "TYPE", "")
	ctl("store delete Wallet -force", exitFailed, "", "type Wallet is not in the store shardgen, which has no types")
	client, stop = hostWallets(t, url)
	defer stop()
	if got, err := client.Ref("wallet-3").Add(t.Context(), 5); err != nil || got != 5 {
		t.Errorf("after the type was deleted: %d, %v, want 5", got, err)
	}
}

// TestStoreFolderCopied: a copy of a stopped server's folder is a backup of everything.
func TestStoreFolderCopied(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	server := runJetStream(t, dir)
	client, stop := hostWallets(t, server.URL())
	fillWallets(t, client)
	stop()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	restored := runJetStream(t, copied).URL()
	args := "store verify -nats " + restored
	shardctl(t, nil, args).check(t, args, exitOK, "40 entities can be read", "")
	client, stop = hostWallets(t, restored)
	defer stop()
	checkWallets(t, client)
}

// TestStoreRepair replaces and drops entities whose records are corrupt.
func TestStoreRepair(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	ctl := shardctlAt(t, env["NATS_URL"])
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	stop()
	file := filepath.Join(t.TempDir(), "wallets.json")
	ctl("store export -o "+file, exitOK, "", "")
	corrupt(t, openStore(t, url), "wallet-3")
	corrupt(t, openStore(t, url), "wallet-4")
	ctl("store verify", exitFailed, `record of entity "wallet-3": corrupt`, "2 heads, appends or records cannot be decoded")
	ctl("store list", exitOK, " 40 ", "") // two of them are not wallets of the test
	ctl("store show Wallet wallet-3", exitFailed, ", unreadable, ", "shardctl store repair replaces or drops it")
	ctl("store export Wallet -o "+file+".new", exitFailed, "", "the export lacks them")

	client, stop = hostWallets(t, url)
	if _, err := client.Ref("wallet-3").Get(t.Context()); err == nil || !strings.Contains(err.Error(), "wallet-3") || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("a call to an entity with a corrupt record: error %v", err)
	}
	if got, err := client.Ref("wallet-5").Get(t.Context()); err != nil || got != 6 {
		t.Errorf("another entity: %d, %v, want 6", got, err)
	}
	stop()

	ctl("store repair Wallet wallet-3 -from "+file, exitOK, "Wallet/wallet-3: state replaced", "")
	ctl("store repair Wallet wallet-4 -drop", exitOK, "Wallet/wallet-4: state dropped", "")
	ctl("store verify", exitOK, "41 entities can be read", "")
	client, stop = hostWallets(t, url)
	defer stop()
	checkWallets(t, client, 4)
}

// TestStoreRepairRefused: a repair that is refused leaves the damaged record as it was.
func TestStoreRepairRefused(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	ctl := func(args string, code int, stdout, stderr string) outcome {
		t.Helper()
		o := shardctl(t, map[string]string{"NATS_URL": url}, args)
		o.check(t, args, code, stdout, stderr)
		return o
	}
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	stop()
	dir := t.TempDir()
	file := filepath.Join(dir, "wallets.json")
	ctl("store export -o "+file, exitOK, "", "")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	corrupt(t, s, "wallet-3")
	damaged := ctl("store show Wallet wallet-3", exitFailed, ", unreadable, ", "").stdout
	kind, err := storeops.TypeOf(t.Context(), s, "Wallet")
	if err != nil {
		t.Fatal(err)
	}
	found, err := find(t.Context(), s, kind, &storeOptions{kind: "Wallet", id: "wallet-3"})
	if err != nil || found.problem == nil {
		t.Fatalf("wallet-3: %v, %v", found, err)
	}
	right := fmt.Sprintf(`"id":"wallet-3","shard":%d`, found.shard.Number)
	for wrong, want := range map[string]string{
		fmt.Sprintf(`"id":"wallet-3","shard":%d`, found.shard.Number^1):          "Wallet/wallet-3 is in shard " + fmt.Sprint(found.shard.Number) + ", and the file says ",
		`"id":"wallet-3","shard":7`:                                              "the file says shard 7: want 64 to 127",
		`"id":"wallet-99","shard":7`:                                             "no line for Wallet/wallet-3",
		right + `,"state":"` + strings.Repeat("AAAA", 200<<10) + `","version":1`: "Wallet/wallet-3: value too large",
	} {
		edited := filepath.Join(dir, "wrong.json")
		lines := strings.SplitAfter(string(good), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, right) })
		lines[i] = strings.Replace(lines[i], right, wrong, 1)
		if strings.Contains(wrong, "state") {
			lines[i] = `{"type":"Wallet",` + wrong + "}\n"
		}
		if err := os.WriteFile(edited, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		ctl("store repair Wallet wallet-3 -from "+edited, exitFailed, "", want)
		ctl("store show Wallet wallet-3", exitFailed, damaged, "")
	}
	if _, err := s.Shards().Append(t.Context(), found.shard, store.Any, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"-drop", "-from " + file} {
		ctl("store repair Wallet wallet-3 "+how, exitFailed, "", fmt.Sprintf("(repair the shard first: shardctl store repair Wallet -shard %d)", found.shard.Number))
		ctl("store show Wallet wallet-3", exitFailed, damaged, "")
	}
	ctl(fmt.Sprintf("store repair Wallet -drop -shard %d", found.shard.Number), exitOK, "replaced", "")
	ctl("store repair Wallet wallet-3 -from "+file, exitOK, "Wallet/wallet-3: state replaced", "")
	ctl("store verify", exitOK, "41 entities can be read", "")
	client, stop = hostWallets(t, url)
	defer stop()
	checkWallets(t, client)
}

// findStored returns a type in the store, and an entity of it that is there.
func findStored(t *testing.T, s *natsstore.Store, kind, id string) (durablehost.Type, sought) {
	t.Helper()
	of, err := storeops.TypeOf(t.Context(), s, kind)
	if err != nil {
		t.Fatal(err)
	}
	found, err := find(t.Context(), s, of, &storeOptions{kind: kind, id: id})
	if err != nil || found.shard.Type == "" {
		t.Fatalf("%s/%s: %v, %v", kind, id, found, err)
	}
	return of, found
}

// corrupt damages the record of a wallet, after everything in its shard's log was written to
// records.
func corrupt(t *testing.T, s *natsstore.Store, id string) {
	t.Helper()
	kind, found := findStored(t, s, "Wallet", id)
	w, err := storeops.NewWriter(t.Context(), s, "Wallet", kind)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(t.Context(), storeops.Entity{Shard: found.shard.Number, ID: "beside-" + id}), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	key := []string{durable.EntityKey(id)}
	head, records, err := s.Shards().Get(t.Context(), found.shard, key, store.None)
	if err != nil || records[0].Revision == store.None {
		t.Fatalf("%s has no record: %v", id, err)
	}
	records[0].Value[len(records[0].Value)/2] ^= 1
	if _, err := s.Shards().Put(t.Context(), found.shard, head.Revision, []store.Change{{ID: key[0], Value: records[0].Value}}); err != nil {
		t.Fatal(err)
	}
}

// hostTreasury starts a node that hosts a durable singleton.
func hostTreasury(t *testing.T, url string) (treasury bank.TreasuryRef, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	if err := bank.HostTreasury(n, func() *bank.Treasury { return &bank.Treasury{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return bank.NewTreasuryClient(n).Ref(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreSingleton: operators handle a durable singleton like an entity. Its shard later opens
// with an epoch above those under which they wrote.
func TestStoreSingleton(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	file := filepath.Join(t.TempDir(), "treasury.json")
	ctl := shardctlAt(t, env["NATS_URL"])
	add := func(treasury bank.TreasuryRef, n, want int64) {
		t.Helper()
		if total, _, err := treasury.Add(t.Context(), n); err != nil || total != want {
			t.Fatalf("%d, %v, want %d", total, err, want)
		}
	}
	treasury, stop := hostTreasury(t, url)
	add(treasury, 5, 5)
	ctl("store list", exitOK, "Treasury  bank     1       1 ", "")
	ctl("store verify", exitOK, "1 types, 1 shards, 1 entities can be read", "")
	ctl("store show Treasury singleton", exitOK, "Treasury/singleton in shard ", "")
	ctl("store export -o "+file, exitOK, "", "")
	ctl("store import -replace -from "+file, exitFailed, "", "type Treasury is hosted by w1")
	for _, c := range []string{"entity", "state"} {
		ctl(c+" -cluster bank Treasury any", exitFailed, "", "Treasury is a singleton, and has no id (shardctl where Treasury says where it runs; shardctl store show Treasury singleton prints")
	}
	add(treasury, 1, 6)
	stop()
	treasury, stop = hostTreasury(t, url)
	add(treasury, 1, 7)
	stop()
	ctl("store import -states -replace -from "+file, exitOK, "1 entities of 1 types are in the store", "")
	treasury, stop = hostTreasury(t, url)
	add(treasury, 1, 6)
	stop()
	ctl("store delete Treasury -force", exitOK, "type Treasury is deleted", "")
	treasury, stop = hostTreasury(t, url)
	add(treasury, 1, 1)
	stop()
}
