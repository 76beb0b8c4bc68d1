package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/test/fixture/bank"
	"github.com/shardgen/shardgen/internal/test/fixture/renamed"
	"github.com/shardgen/shardgen/internal/test/fixture/savings"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// hostBoth starts a node that hosts wallets, which tell each other, and accounts with journals.
func hostBoth(t *testing.T, url string) (*bank.WalletClient, *savings.AccountClient, func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	wallets := bank.NewWalletClient(n)
	err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{Others: wallets.API} })
	if err == nil {
		err = savings.HostAccount(n, func() *savings.Account { return &savings.Account{} })
	}
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return wallets, savings.NewAccountClient(n), func() {
		if err := n.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// followEntries reads events behind a position and adds their amounts by entity.
func followEntries(t *testing.T, c *savings.AccountClient, at shard.Position, n int, sums map[string]int64) shard.Position {
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
// deleted. Then a repeated command gets its first answer, waiting tells arrive, events after a
// snapshot are there, and a follower continues.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"empty store", "deleted types"} {
		t.Run(name, func(t *testing.T) { testBackup(t, name == "empty store") })
	}
}

func testBackup(t *testing.T, empty bool) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	wallets, _, stop := hostBoth(t, url)
	fillWallets(t, wallets)
	stop()
	corrupt(t, openStore(t, url), "wallet-3") // a tell to it cannot arrive

	wallets, accounts, stop := hostBoth(t, url)
	if _, err := wallets.Ref("wallet-1").Dictate(t.Context(), "wallet-3", 1, 3); err != nil {
		t.Fatal(err)
	}
	key := shard.CommandID("pay-7")
	if got, err := wallets.Ref("wallet-7", key).Add(t.Context(), 100); err != nil || got != 108 {
		t.Fatalf("wallet-7: %d, %v, want 108", got, err)
	}
	epoch, err := wallets.Ref("wallet-7").Epoch(t.Context())
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
		ctl = shardctlAt(t, url)
	} else {
		ctl("store delete Wallet -force", exitOK, "", "")
		ctl("store delete Account -force", exitOK, "", "")
	}
	ctl("store import -from "+file, exitOK, "entities of 2 types are in the store", "")
	ctl("store import -replace -from "+file, exitOK, "entities of 2 types are in the store", "")
	ctl("store verify", exitOK, "2 types", "")

	wallets, accounts, stop = hostBoth(t, url)
	defer stop()
	if got, err := wallets.Ref("wallet-7", key).Add(t.Context(), 100); err != nil || got != 108 {
		t.Errorf("the command again: %d, %v, want its answer 108", got, err)
	}
	if got, err := wallets.Ref("wallet-7").Get(t.Context()); err != nil || got != 108 {
		t.Errorf("wallet-7: %d, %v, want 108: the command ran again", got, err)
	}
	if now, err := wallets.Ref("wallet-7").Epoch(t.Context()); err != nil || now <= epoch {
		t.Errorf("epoch %d, %v, want above %d", now, err, epoch)
	}
	for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		notes, err := wallets.Ref("wallet-3").Noted(t.Context())
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

// TestRepairKeepsEvents: when an entity is dropped, events that only its shard's log has are
// written to the journal.
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

// TestDeleteForgetsFollowers: a follower starts again at the first event after its type was deleted
// and hosted again, or after its position alone was deleted, also while nodes run.
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

// TestImportedFollowers: an import of the images of all shards also sets the exported positions of
// followers, which belong to the exported journals. An import that is refused, or that writes only
// states, does not set them.
func TestImportedFollowers(t *testing.T) {
	t.Parallel()
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

// startRenamed starts a node with wallets and a type of package renamed, which the function host
// hosts.
func startRenamed(t *testing.T, url string, host func(*shard.Node, *bank.WalletClient) error) (n *shard.Node, stop func()) {
	t.Helper()
	n = shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	wallets := bank.NewWalletClient(n)
	err := bank.HostWallet(n, func() *bank.Wallet { return &bank.Wallet{Others: wallets.API} })
	if err == nil {
		err = host(n, wallets)
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

func hostFormer(n *shard.Node, wallets *bank.WalletClient) error {
	return renamed.HostFormer(n, func() *renamed.Former { return &renamed.Former{Wallets: wallets.API} })
}

func hostLatter(n *shard.Node, wallets *bank.WalletClient) error {
	return renamed.HostLatter(n, func() *renamed.Latter { return &renamed.Latter{Wallets: wallets.API} })
}

// TestStoreRename renames a type in its export. States, answered commands, the journal, a named follower
// and a tell that waits are kept; a position that a follower keeps itself is refused.
func TestStoreRename(t *testing.T) {
	t.Parallel()
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	wallets, stop := hostWallets(t, url)
	fillWallets(t, wallets)
	stop()
	corrupt(t, openStore(t, url), "wallet-3") // a tell to it cannot arrive

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
	if sum, err := former.Ref("b").Add(t.Context(), 64, "wallet-3"); err != nil || sum != 64 {
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
	ctl("store repair Wallet wallet-3 -drop", exitOK, "state dropped", "")
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
	wallets = bank.NewWalletClient(node)
	for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
		notes, err := wallets.Ref("wallet-3").Noted(t.Context())
		if err == nil && slices.Equal(notes, []int64{64}) {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("tells: %v, %v, want 64", notes, err)
		}
	}
}

// TestStoreDeleteTeller: a type is deleted and hosted again. Its entities can tell entities of
// other types, although these still know the numbers of its former tells.
func TestStoreDeleteTeller(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	var want []int64
	for life := range int64(2) {
		node, stop := startRenamed(t, url, hostFormer)
		former, wallets := renamed.NewFormerClient(node), bank.NewWalletClient(node)
		for i := range int64(3) {
			n := 10*life + i
			if _, err := former.Ref("a").Add(t.Context(), n, "wallet-3"); err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		var notes []int64
		for limit := time.Now().Add(10 * time.Second); !slices.Equal(notes, want); <-time.After(20 * time.Millisecond) {
			var err error
			if notes, err = wallets.Ref("wallet-3").Noted(t.Context()); err != nil || time.Now().After(limit) {
				t.Fatalf("life %d: tells: %v, %v, want %v", life, notes, err, want)
			}
		}
		stop()
		if life == 0 {
			shardctl(t, map[string]string{"NATS_URL": url}, "store delete Former -force").check(t, "delete", exitOK, "type Former is deleted", "")
		}
	}
}

// runThree starts three servers, one for each folder.
func runThree(t *testing.T, folders []string) []*natsproc.Server {
	t.Helper()
	servers, err := natsproc.RunStores(folders...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() {
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
	return servers
}

// TestStoreFoldersCopied: copies of the folders of three stopped servers, whose streams have three replicas,
// are a backup of everything. Servers of the same names serve with them at other addresses.
func TestStoreFoldersCopied(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers, twice")
	}
	var folders, copies []string
	for i := range 3 {
		folders = append(folders, t.TempDir())
		copies = append(copies, filepath.Join(t.TempDir(), "copy-"+strconv.Itoa(i)))
	}
	servers := runThree(t, folders)
	s, err := natsstore.Open(t.Context(), servers[0].URL(), natsstore.Config{Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Last(t.Context(), store.Shard{Type: "Wallet", Number: 64}); err != nil { // creates the streams
		t.Fatal(err)
	}
	s.Close()
	client, stop := hostWallets(t, servers[0].URL())
	fillWallets(t, client)
	stop()
	args := "store list -nats " + servers[1].URL()
	shardctl(t, nil, args).check(t, args, exitOK, " 3         0", "") // replicas, and nothing unreadable
	for _, server := range servers {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	for i, folder := range folders {
		if err := os.CopyFS(copies[i], os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}

	restored := runThree(t, copies)
	args = "store verify -nats " + restored[2].URL()
	for limit := time.Now().Add(time.Minute); ; <-time.After(100 * time.Millisecond) { // until streams have leaders
		got := shardctl(t, nil, args)
		if got.code == exitOK || time.Now().After(limit) {
			got.check(t, args, exitOK, "40 entities can be read", "")
			break
		}
	}
	client, stop = hostWallets(t, restored[1].URL())
	defer stop()
	checkWallets(t, client)
	if got, err := client.Ref("wallet-3").Add(t.Context(), 1); err != nil || got != 5 {
		t.Errorf("after the restore: %d, %v, want 5", got, err)
	}
}

// A snapshot has the content of a stream, in the form in which JetStream exports and restores it.
type snapshot struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
	chunks [][]byte
}

// ask sends a request to JetStream.
func ask(nc *nats.Conn, subject string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	m, err := nc.Request("$JS.API."+subject, body, 10*time.Second)
	if err != nil {
		return err
	}
	var refused struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(m.Data, &refused), json.Unmarshal(m.Data, out)); err != nil {
		return err
	}
	if refused.Error != nil {
		return errors.New(subject + ": " + refused.Error.Description)
	}
	return nil
}

// snapshotOf takes a snapshot of a stream, as `nats stream backup` does.
func snapshotOf(nc *nats.Conn, stream string) (s snapshot, err error) {
	chunks, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return s, err
	}
	err = ask(nc, "STREAM.SNAPSHOT."+stream, map[string]any{"deliver_subject": chunks.Subject, "no_consumers": true}, &s)
	for err == nil {
		var m *nats.Msg
		if m, err = chunks.NextMsg(10 * time.Second); err != nil {
			break
		}
		if len(m.Data) == 0 {
			return s, errors.Join(chunks.Unsubscribe())
		}
		s.chunks = append(s.chunks, m.Data)
		if m.Reply != "" {
			err = m.Respond(nil)
		}
	}
	return s, err
}

// restore makes a stream of a snapshot, as `nats stream restore` does.
func (s snapshot) restore(nc *nats.Conn, stream string) error {
	var to struct {
		Subject string `json:"deliver_subject"`
	}
	err := ask(nc, "STREAM.RESTORE."+stream, s, &to)
	for _, c := range append(s.chunks, nil) {
		if err == nil {
			_, err = nc.Request(to.Subject, c, 10*time.Second)
		}
	}
	return err
}

// TestStoreSnapshots: snapshots of all streams, taken while no node runs, are a backup of everything.
func TestStoreSnapshots(t *testing.T) {
	t.Parallel()
	from, to := runJetStream(t, t.TempDir()), runJetStream(t, t.TempDir())
	client, stop := hostWallets(t, from.URL())
	fillWallets(t, client)
	stop()
	connect := func(s *natsproc.Server) *nats.Conn {
		nc, err := nats.Connect(s.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	source, target := connect(from), connect(to)
	var names struct {
		Streams []string `json:"streams"`
	}
	if err := ask(source, "STREAM.NAMES", struct{}{}, &names); err != nil || len(names.Streams) != 9 {
		t.Fatalf("streams %v, %v, want 9", names, err)
	}
	for _, stream := range names.Streams {
		s, err := snapshotOf(source, stream)
		if err == nil {
			err = s.restore(target, stream)
		}
		if err != nil {
			t.Fatalf("%s: %v", stream, err)
		}
	}
	args := "store verify -nats " + to.URL()
	shardctl(t, nil, args).check(t, args, exitOK, "40 entities can be read", "")
	client, stop = hostWallets(t, to.URL())
	defer stop()
	checkWallets(t, client)
	if got, err := client.Ref("wallet-3").Add(t.Context(), 1); err != nil || got != 5 {
		t.Errorf("after the restore: %d, %v, want 5", got, err)
	}
}
