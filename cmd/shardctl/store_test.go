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
	"github.com/shardgen/shardgen/internal/test/fixture/vault"
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

// hostVaults starts a node that hosts vaults.
func hostVaults(t *testing.T, url string) (client *vault.VaultClient, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	if err := vault.HostVault(n, func() *vault.Vault { return &vault.Vault{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return vault.NewVaultClient(n), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// odd is an id that is no text.
const odd = "a/b \xff"

func vaultID(i int) string {
	if i == 0 {
		return odd
	}
	return fmt.Sprint("vault-", i)
}

const vaults = 40

// fillVaults gives each vault a sum of its own.
func fillVaults(t *testing.T, c *vault.VaultClient) {
	t.Helper()
	for i := range vaults {
		if _, err := c.Ref(vaultID(i)).Add(t.Context(), int64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
}

// checkVaults compares each sum, but those of the vaults that are named.
func checkVaults(t *testing.T, c *vault.VaultClient, but ...int) {
	t.Helper()
	for i := range vaults {
		want := int64(i + 1)
		if len(but) > 0 && but[0] == i {
			want = 0
		}
		if got, err := c.Ref(vaultID(i)).Get(t.Context()); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", vaultID(i), got, err, want)
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
		{"store show Vault", exitUsage, "", "say which entity"},
		{"store list x y", exitUsage, "", `unexpected argument "y"`},
		{"store list x -n 0", exitUsage, "", "-n is 0: want 1 or more"},
		{"store clear", exitUsage, "", "say which cluster"},
		{"store clear -h", exitOK, "", "usage: shardctl store clear [flags] CLUSTER"},
		{"store clear bank", exitUsage, "", "say what: -remembered, -leases, -terms, -table"},
		{"store import", exitUsage, "", "say -from which file"},
		{"store delete Vault", exitUsage, "", "all entities of Vault would be lost: say -force to delete them"},
		{"store repair Vault a", exitUsage, "", "give one of -from and -drop"},
		{"store repair Vault a -drop -from f", exitUsage, "", "give one of -from and -drop"},
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
	client, stop := hostVaults(t, url)
	fillVaults(t, client)
	file := filepath.Join(t.TempDir(), "vaults.json")
	ctl := shardctlAt(t, env["NATS_URL"])
	ctl("store list", exitOK, "Vault  bank     64      40 ", "")
	ctl("store list -json", exitOK, `"entities": 40`, "")
	ctl("store list Vault", exitOK, "20 of 40 entities, which have ", "")
	ctl("store list Vault -n 40", exitOK, `"a/b \xff"  `, "")
	ctl("store list Safe", exitFailed, "", "type Safe is not in the store")
	ctl("store verify", exitOK, "1 types, 64 shards, 40 entities can be read in the store's format (the states in them were not decoded: only a program that hosts the type can do that)", "")
	ctl("store verify Safe", exitFailed, "", "type Safe is not in the store shardgen, which has Vault")
	ctl("store show Vault vault-3", exitOK, "Vault/vault-3 in shard ", "")
	ctl("store show Vault nobody", exitFailed, "", "Vault/nobody is not in the store")
	ctl("store export Vault vault-3", exitOK, `"id":"vault-3"`, "")
	ctl("store export Vault nobody", exitFailed, "", "Vault/nobody is not in the store")
	ctl("store export -o "+file, exitOK, "", "")
	ctl("store import -from "+file, exitFailed, "", "type Vault is hosted by w1 of cluster bank: stop all nodes that host it first")
	ctl("store delete Vault -force", exitFailed, "", "type Vault is hosted by w1")
	ctl("store repair Vault vault-3 -drop", exitFailed, "", "type Vault is hosted by w1")
	stop()
	ctl("store import -from "+file, exitFailed, "", "the shard has been used: ids of commands, tells and the journal cannot be replaced there (shardctl store delete Vault -force,")
	ctl("store import -replace -from "+file, exitFailed, "", "or -states to write the states of entities alone")
	ctl("store import -states -from "+file, exitFailed, "", "the entity exists already (-replace overwrites it)")
	ctl("store import -states -replace -from "+file, exitOK, "64 shards were used: of them only states were imported", "")

	other := runJetStream(t, t.TempDir()).URL()
	to := map[string]string{"NATS_URL": other}
	shardctl(t, to, "store list").check(t, "store list", exitFailed, "", "no store shardgen at "+other+", and no other (check -nats; -store is natsstore.Config.Name)")
	shardctl(t, env, "store list -store bank").check(t, "another name", exitFailed, "", "no store bank at "+url+", which has: shardgen (give one with -store")
	shardctl(t, to, "store import -from "+file).check(t, "store import", exitOK, "40 entities of 1 types are in the store", "")
	shardctl(t, to, "store verify").check(t, "store verify", exitOK, "40 entities can be read", "")
	client, stop = hostVaults(t, other)
	checkVaults(t, client)
	if got, err := client.Ref(odd).Add(t.Context(), 1); err != nil || got != 2 {
		t.Errorf("after the import: %d, %v, want 2", got, err)
	}
	stop()

	ctl("store delete Vault -force", exitOK, "type Vault is deleted", "")
	ctl("store list", exitOK, "TYPE", "")
	ctl("store delete Vault -force", exitFailed, "", "type Vault is not in the store shardgen, which has no types")
	client, stop = hostVaults(t, url)
	defer stop()
	if got, err := client.Ref("vault-3").Add(t.Context(), 5); err != nil || got != 5 {
		t.Errorf("after the type was deleted: %d, %v, want 5", got, err)
	}
}

// TestStoreFolderCopied: a copy of a stopped server's folder is a backup of everything.
func TestStoreFolderCopied(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	server := runJetStream(t, dir)
	client, stop := hostVaults(t, server.URL())
	fillVaults(t, client)
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
	client, stop = hostVaults(t, restored)
	defer stop()
	checkVaults(t, client)
}

// TestStoreRepair replaces and drops entities whose records are corrupt.
func TestStoreRepair(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	ctl := shardctlAt(t, env["NATS_URL"])
	client, stop := hostVaults(t, url)
	fillVaults(t, client)
	stop()
	file := filepath.Join(t.TempDir(), "vaults.json")
	ctl("store export -o "+file, exitOK, "", "")
	corrupt(t, openStore(t, url), "vault-3")
	corrupt(t, openStore(t, url), "vault-4")
	ctl("store verify", exitFailed, `record of entity "vault-3": corrupt`, "2 heads, appends or records cannot be decoded")
	ctl("store list", exitOK, " 40 ", "") // two of them are not vaults of the test
	ctl("store show Vault vault-3", exitFailed, ", unreadable, ", "shardctl store repair replaces or drops it")
	ctl("store export Vault -o "+file+".new", exitFailed, "", "the export lacks them")

	client, stop = hostVaults(t, url)
	if _, err := client.Ref("vault-3").Get(t.Context()); err == nil || !strings.Contains(err.Error(), "vault-3") || !strings.Contains(err.Error(), "corrupt") {
		t.Errorf("a call to an entity with a corrupt record: error %v", err)
	}
	if got, err := client.Ref("vault-5").Get(t.Context()); err != nil || got != 6 {
		t.Errorf("another entity: %d, %v, want 6", got, err)
	}
	stop()

	ctl("store repair Vault vault-3 -from "+file, exitOK, "Vault/vault-3: state replaced", "")
	ctl("store repair Vault vault-4 -drop", exitOK, "Vault/vault-4: state dropped", "")
	ctl("store verify", exitOK, "41 entities can be read", "")
	client, stop = hostVaults(t, url)
	defer stop()
	checkVaults(t, client, 4)
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
	client, stop := hostVaults(t, url)
	fillVaults(t, client)
	stop()
	dir := t.TempDir()
	file := filepath.Join(dir, "vaults.json")
	ctl("store export -o "+file, exitOK, "", "")
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	corrupt(t, s, "vault-3")
	damaged := ctl("store show Vault vault-3", exitFailed, ", unreadable, ", "").stdout
	kind, err := storeops.TypeOf(t.Context(), s, "Vault")
	if err != nil {
		t.Fatal(err)
	}
	found, err := find(t.Context(), s, kind, &storeOptions{kind: "Vault", id: "vault-3"})
	if err != nil || found.problem == nil {
		t.Fatalf("vault-3: %v, %v", found, err)
	}
	right := fmt.Sprintf(`"id":"vault-3","shard":%d`, found.shard.Number)
	for wrong, want := range map[string]string{
		fmt.Sprintf(`"id":"vault-3","shard":%d`, found.shard.Number^1):           "Vault/vault-3 is in shard " + fmt.Sprint(found.shard.Number) + ", and the file says ",
		`"id":"vault-3","shard":7`:                                               "the file says shard 7: want 64 to 127",
		`"id":"vault-99","shard":7`:                                              "no line for Vault/vault-3",
		right + `,"state":"` + strings.Repeat("AAAA", 200<<10) + `","version":1`: "Vault/vault-3: value too large",
	} {
		edited := filepath.Join(dir, "wrong.json")
		lines := strings.SplitAfter(string(good), "\n")
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, right) })
		lines[i] = strings.Replace(lines[i], right, wrong, 1)
		if strings.Contains(wrong, "state") {
			lines[i] = `{"type":"Vault",` + wrong + "}\n"
		}
		if err := os.WriteFile(edited, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		ctl("store repair Vault vault-3 -from "+edited, exitFailed, "", want)
		ctl("store show Vault vault-3", exitFailed, damaged, "")
	}
	if _, err := s.Shards().Append(t.Context(), found.shard, store.Any, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"-drop", "-from " + file} {
		ctl("store repair Vault vault-3 "+how, exitFailed, "", fmt.Sprintf("(repair the shard first: shardctl store repair Vault -shard %d)", found.shard.Number))
		ctl("store show Vault vault-3", exitFailed, damaged, "")
	}
	ctl(fmt.Sprintf("store repair Vault -drop -shard %d", found.shard.Number), exitOK, "replaced", "")
	ctl("store repair Vault vault-3 -from "+file, exitOK, "Vault/vault-3: state replaced", "")
	ctl("store verify", exitOK, "41 entities can be read", "")
	client, stop = hostVaults(t, url)
	defer stop()
	checkVaults(t, client)
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

// corrupt damages the record of a vault. Its shard's log goes on behind it.
func corrupt(t *testing.T, s *natsstore.Store, id string) {
	t.Helper()
	kind, found := findStored(t, s, "Vault", id)
	w, err := storeops.NewWriter(t.Context(), s, "Vault", kind)
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

// hostSteward starts a node that hosts a durable singleton.
func hostSteward(t *testing.T, url string) (steward vault.StewardRef, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	if err := vault.HostSteward(n, func() *vault.Steward { return &vault.Steward{} }); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return vault.NewStewardClient(n).Ref(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreSingleton: operators handle a durable singleton like an entity, and it opens above the
// epochs that they write under.
func TestStoreSingleton(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	env := map[string]string{"NATS_URL": url}
	file := filepath.Join(t.TempDir(), "steward.json")
	ctl := shardctlAt(t, env["NATS_URL"])
	add := func(steward vault.StewardRef, n, want int64) {
		t.Helper()
		if total, _, err := steward.Add(t.Context(), n); err != nil || total != want {
			t.Fatalf("%d, %v, want %d", total, err, want)
		}
	}
	steward, stop := hostSteward(t, url)
	add(steward, 5, 5)
	ctl("store list", exitOK, "Steward  bank     1       1 ", "")
	ctl("store verify", exitOK, "1 types, 1 shards, 1 entities can be read", "")
	ctl("store show Steward singleton", exitOK, "Steward/singleton in shard ", "")
	ctl("store export -o "+file, exitOK, "", "")
	ctl("store import -replace -from "+file, exitFailed, "", "type Steward is hosted by w1")
	for _, c := range []string{"entity", "state"} {
		ctl(c+" -cluster bank Steward any", exitFailed, "", "Steward is a singleton, and has no id (shardctl where Steward says where it runs; shardctl store show Steward singleton prints")
	}
	add(steward, 1, 6)
	stop()
	steward, stop = hostSteward(t, url)
	add(steward, 1, 7)
	stop()
	ctl("store import -states -replace -from "+file, exitOK, "1 entities of 1 types are in the store", "")
	steward, stop = hostSteward(t, url)
	add(steward, 1, 6)
	stop()
	ctl("store delete Steward -force", exitOK, "type Steward is deleted", "")
	steward, stop = hostSteward(t, url)
	add(steward, 1, 1)
	stop()
}
