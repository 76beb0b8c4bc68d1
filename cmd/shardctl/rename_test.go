package main

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/fixture/renamed"
	"github.com/shardgen/shardgen/internal/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// startRenamed starts a node with vaults and a type of package renamed, which host hosts.
func startRenamed(t *testing.T, url string, host func(*shard.Node, *vault.VaultClient) error) (n *shard.Node, stop func()) {
	t.Helper()
	n = shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	vaults := vault.NewVaultClient(n)
	err := vault.HostVault(n, func() *vault.Vault { return &vault.Vault{Others: vaults.API} })
	if err == nil {
		err = host(n, vaults)
	}
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n, func() {
		if err := n.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func hostFormer(n *shard.Node, vaults *vault.VaultClient) error {
	return renamed.HostFormer(n, func() *renamed.Former { return &renamed.Former{Vaults: vaults.API} })
}

func hostLatter(n *shard.Node, vaults *vault.VaultClient) error {
	return renamed.HostLatter(n, func() *renamed.Latter { return &renamed.Latter{Vaults: vaults.API} })
}

// TestStoreRename renames a type in its export. States, answered commands, the journal, a named follower
// and a tell that waits are kept; a position that a follower keeps itself is refused.
func TestStoreRename(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, stdout, stderr)
	}
	vaults, stop := hostVaults(t, url)
	fillVaults(t, vaults)
	stop()
	corrupt(t, openStore(t, url), "vault-3") // a tell to it cannot arrive

	node, stop := startRenamed(t, url, hostFormer)
	former := renamed.NewFormerClient(node)
	key := shard.CommandID("pay-7")
	for i := range 7 { // a snapshot comes after 5 events
		var opts []shard.CallOption
		if i == 6 {
			opts = append(opts, key)
		}
		if _, err := former.Ref("a", opts...).Add(t.Context(), int64(i+1), ""); err != nil {
			t.Fatal(err)
		}
	}
	at, read := shard.Position(""), 0
	for e, err := range former.Events(t.Context(), "", shard.FollowerName("books")) {
		if err != nil {
			t.Fatal(err)
		}
		if read++; read == 4 { // the one at which the loop breaks is not read
			break
		}
		at = e.Position
	}
	if sum, err := former.Ref("b").Add(t.Context(), 64, "vault-3"); err != nil || sum != 64 {
		t.Fatalf("b: %d, %v, want 64", sum, err)
	}
	stop()

	file := filepath.Join(t.TempDir(), "former.json")
	ctl("store export Former -o "+file, exitOK, "", "")
	lines, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.ReplaceAll(lines, []byte(`"type":"Former"`), []byte(`"type":"Latter"`)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctl("store import -from "+file, exitOK, "2 entities of 1 types are in the store", "")
	ctl("store delete Former -force", exitOK, "type Former is deleted", "")
	ctl("store repair Vault vault-3 -drop", exitOK, "state dropped", "")
	ctl("store verify", exitOK, "2 types", "")

	node, stop = startRenamed(t, url, hostLatter)
	defer stop()
	latter := renamed.NewLatterClient(node)
	if sum, err := latter.Ref("a", key).Add(t.Context(), 7, ""); err != nil || sum != 28 {
		t.Errorf("the command again: %d, %v, want its answer 28", sum, err)
	}
	if sum, err := latter.Ref("a").Add(t.Context(), 100, ""); err != nil || sum != 128 {
		t.Errorf("a: %d, %v, want 128", sum, err)
	}
	for _, err := range latter.Events(t.Context(), at) {
		if !errors.Is(err, shard.ErrPosition) {
			t.Errorf("a position of the former type: %v, want ErrPosition", err)
		}
		break
	}
	sums := map[string]int64{}
	for e, err := range latter.Events(t.Context(), "", shard.FollowerName("books")) {
		if err != nil {
			t.Fatal(err)
		}
		if sums[e.Entity] += e.Event.Amount; sums["a"] >= 4+5+6+7+100 && sums["b"] >= 64 {
			break
		}
	}
	if sums["a"] != 4+5+6+7+100 || sums["b"] != 64 {
		t.Errorf("the follower goes on with %v, want a 122 and b 64", sums)
	}
	vaults = vault.NewVaultClient(node)
	for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		notes, err := vaults.Ref("vault-3").Noted(t.Context())
		if err == nil && slices.Equal(notes, []int64{64}) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("tells: %v, %v, want 64", notes, err)
		}
	}
}

// TestStoreDeleteTeller: a type that is deleted and begins anew tells the entities of other types, which know
// the numbers of its former tells.
func TestStoreDeleteTeller(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	var want []int64
	for life := range int64(2) {
		node, stop := startRenamed(t, url, hostFormer)
		former, vaults := renamed.NewFormerClient(node), vault.NewVaultClient(node)
		for i := range int64(3) {
			n := 10*life + i
			if _, err := former.Ref("a").Add(t.Context(), n, "vault-3"); err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		var notes []int64
		for limit := time.Now().Add(10 * time.Second); !slices.Equal(notes, want); <-time.After(20 * time.Millisecond) {
			var err error
			if notes, err = vaults.Ref("vault-3").Noted(t.Context()); err != nil || time.Now().After(limit) {
				t.Fatalf("life %d: tells: %v, %v, want %v", life, notes, err, want)
			}
		}
		stop()
		if life == 0 {
			shardctl(t, map[string]string{"NATS_URL": url}, "store delete Former -force").check(t, "delete", exitOK, "type Former is deleted", "")
		}
	}
}
