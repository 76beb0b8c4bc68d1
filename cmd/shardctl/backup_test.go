package main

import (
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/durable"
	"github.com/shardgen/shardgen/internal/durablehost"
	"github.com/shardgen/shardgen/internal/fixture/giro"
	"github.com/shardgen/shardgen/internal/fixture/vault"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// hostBoth starts a node that hosts vaults, which tell each other, and accounts with journals.
func hostBoth(t *testing.T, url string) (*vault.VaultClient, *giro.AccountClient, func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	vaults := vault.NewVaultClient(n)
	err := vault.HostVault(n, func() *vault.Vault { return &vault.Vault{Others: vaults.API} })
	if err == nil {
		err = giro.HostAccount(n, func() *giro.Account { return &giro.Account{} })
	}
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return vaults, giro.NewAccountClient(n), func() {
		if err := n.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// followEntries reads events behind a position and adds their amounts by entity.
func followEntries(t *testing.T, c *giro.AccountClient, at shard.Position, n int, sums map[string]int64) shard.Position {
	t.Helper()
	for e, err := range c.Events(t.Context(), at) {
		if err != nil {
			t.Fatal(err)
		}
		sums[e.Entity] += e.Event.Amount
		at = e.Position
		if n--; n == 0 {
			break
		}
	}
	return at
}

// TestBackup restores an export into an empty store, and into one from which the types were
// deleted. Then a repeated command gets its first answer, waiting tells arrive, events behind a
// snapshot are there, and a follower continues.
func TestBackup(t *testing.T) {
	for _, name := range []string{"empty store", "deleted types"} {
		t.Run(name, func(t *testing.T) { testBackup(t, name == "empty store") })
	}
}

func testBackup(t *testing.T, empty bool) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, stdout, stderr)
	}
	vaults, _, stop := hostBoth(t, url)
	fillVaults(t, vaults)
	stop()
	corrupt(t, openStore(t, url), "vault-3") // a tell to it cannot arrive

	vaults, accounts, stop := hostBoth(t, url)
	if _, err := vaults.Ref("vault-1").Dictate(t.Context(), "vault-3", 1, 3); err != nil {
		t.Fatal(err)
	}
	key := shard.CommandID("pay-7")
	if got, err := vaults.Ref("vault-7", key).Add(t.Context(), 100); err != nil || got != 108 {
		t.Fatalf("vault-7: %d, %v, want 108", got, err)
	}
	epoch, err := vaults.Ref("vault-7").Epoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 12 { // a snapshot comes after 5 events of an account
		if _, err := accounts.Ref([]string{"a", "b"}[i%2]).Enter(t.Context(), int64(i+1), ""); err != nil {
			t.Fatal(err)
		}
	}
	sums := map[string]int64{}
	at := followEntries(t, accounts, "", 5, sums)
	stop()

	file := filepath.Join(t.TempDir(), "all.json")
	ctl("store export -o "+file, exitFailed, "", "1 heads, appends or records cannot be decoded")
	if empty {
		url = runJetStream(t, t.TempDir()).URL()
	} else {
		ctl("store delete Vault -force", exitOK, "", "")
		ctl("store delete Account -force", exitOK, "", "")
	}
	ctl("store import -from "+file, exitOK, "entities of 2 types are in the store", "")
	ctl("store import -replace -from "+file, exitOK, "entities of 2 types are in the store", "")
	ctl("store verify", exitOK, "2 types", "")

	vaults, accounts, stop = hostBoth(t, url)
	defer stop()
	if got, err := vaults.Ref("vault-7", key).Add(t.Context(), 100); err != nil || got != 108 {
		t.Errorf("the command again: %d, %v, want its answer 108", got, err)
	}
	if got, err := vaults.Ref("vault-7").Get(t.Context()); err != nil || got != 108 {
		t.Errorf("vault-7: %d, %v, want 108: the command ran again", got, err)
	}
	if now, err := vaults.Ref("vault-7").Epoch(t.Context()); err != nil || now <= epoch {
		t.Errorf("epoch %d, %v, want above %d", now, err, epoch)
	}
	for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		notes, err := vaults.Ref("vault-3").Noted(t.Context())
		if err == nil && slices.Equal(notes, []int64{1, 2, 3}) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("tells: %v, %v, want 1 to 3", notes, err)
		}
	}
	at = followEntries(t, accounts, at, 7, sums)
	if got, err := accounts.Ref("a").Enter(t.Context(), 64, ""); err != nil || got != 36+64 {
		t.Errorf("a: %d, %v, want 100", got, err)
	}
	followEntries(t, accounts, at, 1, sums)
	if sums["a"] != 100 || sums["b"] != 42 {
		t.Errorf("the follower has %v, want a 100 and b 42", sums)
	}
}

// TestRepairKeepsEvents: events that are in the log alone are in the journal after an entity of their shard was
// dropped.
func TestRepairKeepsEvents(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	_, accounts, stop := hostBoth(t, url)
	for i := range 3 {
		if _, err := accounts.Ref("a").Enter(t.Context(), int64(i+1), ""); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	shardctl(t, map[string]string{"NATS_URL": url}, "store repair Account a -drop").check(t, "store repair", exitOK, "state dropped", "")
	_, accounts, stop = hostBoth(t, url)
	defer stop()
	if got, err := accounts.Ref("a").Enter(t.Context(), 10, ""); err != nil || got != 10 {
		t.Errorf("after the repair: %d, %v, want 10", got, err)
	}
	sums := map[string]int64{}
	if followEntries(t, accounts, "", 4, sums); sums["a"] != 16 {
		t.Errorf("a follower gets %d, want 16", sums["a"])
	}
}

// TestDeleteForgetsFollowers: a follower of a type that is deleted and hosted again begins anew, and so does one whose
// position alone is deleted, also while nodes run.
func TestDeleteForgetsFollowers(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	_, accounts, stop := hostBoth(t, url)
	if _, err := accounts.Ref("a").Enter(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, url)
	if _, err := durablehost.SaveFollowed(t.Context(), s, "Account", "reports", durablehost.Followed{Places: make([]durable.Place, 64)}, store.None); err != nil {
		t.Fatal(err)
	}
	if _, err := durablehost.SaveFollowed(t.Context(), s, "Accounts", "reports", durablehost.Followed{Places: make([]durable.Place, 64)}, store.None); err != nil {
		t.Fatal(err)
	}
	for args, code := range map[string]int{"other": exitFailed, "reports": exitOK} {
		args = "store delete Account -follower " + args
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, map[int]string{exitOK: "reports of Account is deleted"}[code], map[int]string{exitFailed: "not found"}[code])
	}
	if _, revision, err := durablehost.LoadFollowed(t.Context(), s, "Account", "reports"); err != nil || revision != store.None {
		t.Errorf("the position of reports is still there (%v)", err)
	}
	if _, err := durablehost.SaveFollowed(t.Context(), s, "Account", "reports", durablehost.Followed{Places: make([]durable.Place, 64)}, store.None); err != nil {
		t.Fatal(err)
	}
	stop()
	shardctl(t, map[string]string{"NATS_URL": url}, "store delete Account -force").check(t, "store delete Account", exitOK, "type Account is deleted", "")
	for kind, want := range map[string]int{"Account": 0, "Accounts": 1} {
		if left, err := durablehost.FollowersOf(t.Context(), s, kind); err != nil || len(left) != want {
			t.Errorf("%s: %d followers are left (%v), want %d", kind, len(left), err, want)
		}
	}
}

// TestImportedFollowers: the positions of an export are those of its journals. So followers get them with the images of
// all shards, and not from an import that is refused, or has states alone.
func TestImportedFollowers(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	_, accounts, stop := hostBoth(t, url)
	if _, err := accounts.Ref("a").Enter(t.Context(), 1, ""); err != nil {
		t.Fatal(err)
	}
	for _, err := range accounts.Events(t.Context(), "", shard.FollowerName("reports")) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	stop()
	file, one := filepath.Join(t.TempDir(), "all.json"), filepath.Join(t.TempDir(), "one.json")
	for _, tt := range []struct {
		args string
		code int
		want int // followers
	}{
		{"export Account -o " + file, exitOK, 1},
		{"export Account a -o " + one, exitOK, 1},
		{"delete Account -follower reports", exitOK, 0},
		{"import -from " + file, exitFailed, 0},
		{"import -replace -states -from " + file, exitOK, 0},
		{"delete Account -force", exitOK, 0},
		{"import -from " + one, exitOK, 0},
		{"delete Account -force", exitOK, 0},
		{"import -from " + file, exitOK, 1},
	} {
		args := "store " + tt.args
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, tt.code, "", "")
		if left, err := durablehost.FollowersOf(t.Context(), openStore(t, url), "Account"); err != nil || len(left) != tt.want {
			t.Errorf("after %s: %d followers (%v), want %d", args, len(left), err, tt.want)
		}
	}
}
