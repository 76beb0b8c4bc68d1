package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/ops/storeops"
	"github.com/shardgen/shardgen/internal/test/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// damages are ways in which a whole shard becomes unreadable.
var damages = map[string]func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error{
	"append": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		_, err := s.Shards().Append(ctx, at, store.Any, []byte("garbage"))
		return err
	},
	"lost end of the log": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		return loseLog(ctx, s, at, 1000)
	},
	"lost beginning of the log": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		if err := loseLog(ctx, s, at, 1); err != nil {
			return err
		}
		// The position belongs to another shard's log in the same stream.
		neighbor := store.Shard{Type: at.Type, Number: at.Number ^ 4}
		_, err := s.Shards().Append(ctx, neighbor, store.Any, durable.ClaimAppend("test", 7, 1))
		return err
	},
	"head": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		head, err := s.Shards().Head(ctx, at)
		if err != nil {
			return err
		}
		head.Value = []byte("garbage")
		_, err = s.Shards().SetHead(ctx, at, head)
		return err
	},
	"lost head": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		head, err := s.Shards().Head(ctx, at)
		if err != nil {
			return err
		}
		return purge(ctx, url, fmt.Sprint("shardgen_Wallet_rec_", at.Number%4), uint64(head.Revision))
	},
	"first append": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		last, err := s.Last(ctx, at)
		if err != nil {
			return err
		}
		log, err := s.Shards().Read(ctx, at, store.Start, last)
		if err != nil {
			return err
		}
		return purge(ctx, url, fmt.Sprint("shardgen_Wallet_log_", at.Number%4), uint64(log[0].Position))
	},
	"table": func(ctx context.Context, url string, s *natsstore.Store, at store.Shard) error {
		head, err := s.Shards().Head(ctx, at)
		if err != nil {
			return err
		}
		epoch, node, err := durable.HeadBy(head)
		if err != nil {
			return err
		}
		without, err := durable.RestoredHead(head.Value, node, 7, epoch+1, false) // a part is missing
		if err != nil {
			return err
		}
		without.Revision, without.Since = head.Revision, head.Since
		revision, err := s.Shards().SetHead(ctx, at, without)
		if err == nil {
			_, err = s.Shards().Put(ctx, at, revision, []store.Change{{ID: "t0/0", Value: []byte("garbage")}, {ID: "t1/0", Value: []byte("garbage")}})
		}
		return err
	},
}

// TestStoreRepairShard damages a shard's log, head, table or journal. Calls to the shard get the
// remedy, and the other shards serve. After shardctl store repair -shard, from an export or from
// what is left, the shard serves again.
func TestStoreRepairShard(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, how := range []string{"-from", "-drop"} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				testRepairShard(t, damage, how, name == "first append" && how == "-drop")
			})
		}
	}
	for _, how := range []string{"-from", "-drop"} {
		for name, inRecords := range map[string]bool{"journal": false, "journal in records": true} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				testRepairJournal(t, how, inRecords)
			})
		}
	}
}

func testRepairShard(t *testing.T, damage func(context.Context, string, *natsstore.Store, store.Shard) error, how string, loses bool) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	key := shard.CommandID("pay-7")
	if _, err := client.Ref("wallet-7", key).Add(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	stop()
	file := filepath.Join(t.TempDir(), "all.json")
	ctl("store export -o "+file, exitOK, "", "")
	s := openStore(t, url)
	_, found := findStored(t, s, "Wallet", "wallet-7")
	number := fmt.Sprint(found.shard.Number)
	ctl("store repair Wallet -drop -shard "+number, exitFailed, "", "nothing is damaged")
	if err := damage(t.Context(), url, s, found.shard); err != nil {
		t.Fatal(err)
	}

	ctl("store verify", exitFailed, "shard Wallet/"+number+": ", "repair")
	client, stop = hostWallets(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // several tenures end before the caller hears why
	defer cancel()
	if _, err := client.Ref("wallet-7").Add(ctx, 1); err == nil || !strings.Contains(err.Error(), "Wallet/"+number) || !strings.Contains(err.Error(), "shardctl store repair") {
		t.Errorf("a call to the damaged shard: %v, want the remedy", err)
	}
	if got, err := client.Ref(odd).Get(t.Context()); err != nil || got != 1 {
		t.Errorf("another shard: %d, %v", got, err)
	}
	ctl("store repair Wallet -drop -shard "+number, exitFailed, "", "type Wallet is hosted by w1")
	stop()

	ctl("store repair Wallet "+how+map[string]string{"-from": " " + file}[how]+" -shard "+number, exitOK, "shard Wallet/"+number+": replaced", "")
	client, stop = hostWallets(t, url)
	if loses { // no checkpoint has come, so the log had everything
		defer stop()
		ctl("store verify", exitOK, "39 entities can be read", "")
		checkWallets(t, client, 7)
		return
	}
	ctl("store verify", exitOK, "40 entities can be read", "")
	checkWallets(t, client)
	if got, err := client.Ref("wallet-7", key).Add(t.Context(), 0); err != nil || got != 8 {
		t.Errorf("the command again: %d, %v, want its answer 8", got, err)
	}
	if got, err := client.Ref("wallet-7").Add(t.Context(), 2); err != nil || got != 10 {
		t.Errorf("after the repair: %d, %v, want 10", got, err)
	}
	stop()
	client, stop = hostWallets(t, url)
	defer stop()
	if got, err := client.Ref("wallet-7").Get(t.Context()); err != nil || got != 10 {
		t.Errorf("after another start: %d, %v, want 10", got, err)
	}
}

// testRepairJournal damages the index of a shard's journal. Repaired from an export, the journal
// comes back and a follower goes on. Repaired from what is left, the balances are kept and the
// follower is told that events are gone.
func testRepairJournal(t *testing.T, how string, inRecords bool) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	_, accounts, stop := hostBoth(t, url)
	for i := range 7 { // a snapshot comes after 5 events
		if _, err := accounts.Ref("a").Enter(t.Context(), int64(i+1), ""); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]int64{}
	at := followEntries(t, accounts, "", 3, before)
	stop()
	file := filepath.Join(t.TempDir(), "all.json")
	ctl("store export Account -o "+file, exitOK, "", "")
	s := openStore(t, url)
	kind, found := findStored(t, s, "Account", "a")
	number := fmt.Sprint(found.shard.Number)
	if inRecords { // an image has nothing in the log
		ctl("store repair Account -from "+file+" -shard "+number, exitOK, "replaced", "")
	}
	head, err := s.Shards().Head(t.Context(), found.shard)
	if err == nil {
		_, err = s.Shards().Put(t.Context(), found.shard, head.Revision, []store.Change{{ID: "j", Value: []byte("garbage")}})
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprint("Account/", found.shard.Number)
	ctl("store verify", exitFailed, "shard "+name+": journal, record j: ", "repair")
	_, accounts, stop = hostBoth(t, url)
	if _, err := accounts.Ref("a").Enter(t.Context(), 1, ""); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "shardctl store repair") {
		t.Errorf("a call to the damaged shard: %v, want the remedy", err)
	}
	stop()

	places := make([]durable.Place, kind.Shards)
	places[found.shard.Number-len(places)] = durable.Place{Chunk: 1, Number: 9, Sum: 1}
	if _, err := durablehost.SaveFollowed(t.Context(), s, "Account", "ahead", durablehost.Followed{Places: places}, store.None); err != nil {
		t.Fatal(err)
	}
	ctl("store repair Account "+how+map[string]string{"-from": " " + file}[how]+" -shard "+number, exitOK, "shard "+name+": follower ahead: the follower has read up to event 9", "")
	ctl("store verify", exitOK, "1 entities can be read", "")
	_, accounts, stop = hostBoth(t, url)
	defer stop()
	if got, err := accounts.Ref("a").Enter(t.Context(), 100, ""); err != nil || got != 28+100 {
		t.Errorf("after the repair: %d, %v, want 128", got, err)
	}
	if how == "-drop" {
		for _, err := range accounts.Events(t.Context(), at) {
			if !errors.Is(err, shard.ErrEventsGone) {
				t.Errorf("a follower gets %v, want %v", err, shard.ErrEventsGone)
			}
			break
		}
		return
	}
	sums, want := map[string]int64{}, int64(128-1-2-3) // which were read before
	followEntries(t, accounts, at, 5, sums)
	if sums["a"] != want {
		t.Errorf("a follower gets %d, want %d", sums["a"], want)
	}
}

// TestStoreRepairChunk: a lost chunk of a journal is reported. After the repair the journal begins
// after the chunk, and followers that have not read so far are told that events are gone.
func TestStoreRepairChunk(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	amount, places := int64(0), map[int64]shard.Position{}
	for range 4 { // each home begins a chunk
		_, accounts, stop := hostBoth(t, url)
		for range 3 {
			if amount == 1 || amount == 4 || amount == 11 {
				places[amount] = followEntries(t, accounts, "", int(amount), map[string]int64{})
			}
			amount++
			if _, err := accounts.Ref("a").Enter(t.Context(), amount, ""); err != nil {
				t.Fatal(err)
			}
		}
		stop()
	}
	s := openStore(t, url)
	kind, found := findStored(t, s, "Account", "a")
	name := fmt.Sprint("Account/", found.shard.Number)
	w, err := storeops.NewWriter(t.Context(), s, "Account", kind) // it writes everything to records
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(t.Context(), storeops.Entity{Shard: found.shard.Number, ID: "nobody", Ended: true}), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	left, want := 12, int64(12*13/2)
	for place := (durable.Place{}); place.Number < 12; { // the number of an event is its amount
		var events []durable.Recorded
		events, place, err = place.Look(func(keys ...string) ([]store.Record, error) {
			_, records, err := s.Shards().Get(t.Context(), found.shard, keys, store.None)
			return records, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Place.Chunk <= 3 {
				left, want = left-1, want-int64(e.Place.Number)
			}
		}
	}
	head, err := s.Shards().Head(t.Context(), found.shard)
	if err == nil {
		_, err = s.Shards().Put(t.Context(), found.shard, head.Revision, []store.Change{{ID: "j2"}, {ID: "j3", Value: []byte("garbage")}})
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "all.json")
	ctl("store verify", exitFailed, "shard "+name+": journal, record j2: corrupt", "2 heads, appends or records cannot be decoded")
	ctl("store verify", exitFailed, "shard "+name+": journal, record j3: corrupt", "")
	ctl("store export -o "+file, exitFailed, "", "the export lacks them")
	ctl(fmt.Sprint("store repair Account -drop -shard ", found.shard.Number), exitOK, "shard "+name+": dropped: journal, record j2: ", "")
	ctl("store verify", exitOK, "1 entities can be read", "")
	ctl(fmt.Sprint("store repair Account -drop -shard ", found.shard.Number), exitFailed, "", "nothing is damaged")
	check := func() {
		_, accounts, stop := hostBoth(t, url)
		defer stop()
		sums := map[string]int64{}
		followEntries(t, accounts, "", left, sums)
		if sums["a"] != want {
			t.Errorf("a new follower gets %d, want %d", sums["a"], want)
		}
		if _, err := accounts.Ref("a").Enter(t.Context(), 100, ""); err != nil {
			t.Fatal(err)
		}
		for read, at := range places {
			for e, err := range accounts.Events(t.Context(), at) {
				if gone := read < int64(12-left); gone && !errors.Is(err, shard.ErrEventsGone) || !gone && err != nil {
					t.Errorf("a follower that has read %d gets %d, %v", read, e.Event.Amount, err)
				}
				break
			}
		}
	}
	check()
	ctl("store delete Account -force", exitOK, "", "")
	ctl("store import -from "+file, exitOK, "1 entities of 1 types", "") // of the export that lacks them
	ctl("store verify", exitOK, "1 entities can be read", "")
	check()
}

// purge removes a stream's message, and older ones of its subject.
func purge(ctx context.Context, url, stream string, seq uint64) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(m.Subject), jetstream.WithPurgeSequence(seq+1))
}

// TestStoreVerifyEmptied: verify reports a stream all of whose messages the server has lost.
func TestStoreVerifyEmptied(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	client, stop := hostWallets(t, url)
	fillWallets(t, client)
	stop()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{"shardgen_Wallet_log_1", "shardgen_Wallet_rec_2"} {
		s, err := js.Stream(t.Context(), stream)
		if err == nil {
			err = s.Purge(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		args := "store verify -nats " + url
		shardctl(t, nil, args).check(t, args, exitFailed, "stream "+stream+": it is empty, and had messages", "")
	}
}

// loseLog writes everything to records. Then it makes the head need the log from n positions after
// the log's end, as if the server had lost acknowledged entries.
func loseLog(ctx context.Context, s *natsstore.Store, at store.Shard, n store.Position) error {
	kind, err := storeops.TypeOf(ctx, s, at.Type)
	if err != nil {
		return err
	}
	w, err := storeops.NewWriter(ctx, s, at.Type, kind)
	if err != nil {
		return err
	}
	err = errors.Join(w.Write(ctx, storeops.Entity{Shard: at.Number, ID: "nobody", Ended: true}), w.Close(ctx))
	if err != nil {
		return err
	}
	last, err := s.Last(ctx, at)
	if err != nil {
		return err
	}
	head, err := s.Shards().Head(ctx, at)
	if err != nil {
		return err
	}
	head.Since = last + n
	_, err = s.Shards().SetHead(ctx, at, head)
	return err
}

// TestStoreListEntities: the largest come first, as many as are asked for.
func TestStoreListEntities(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	client, stop := hostWallets(t, url)
	for i := range 9 {
		if _, err := client.Ref(fmt.Sprint("wallet-", i)).Add(t.Context(), int64(1)<<(7*i)); err != nil { // 7 bits a byte
			t.Fatal(err)
		}
	}
	stop()
	got := shardctl(t, map[string]string{"NATS_URL": url}, "store list Wallet -json -n 3")
	var largest []storedEntity
	if err := json.Unmarshal([]byte(got.stdout), &largest); err != nil || got.code != exitOK {
		t.Fatalf("%+v: %v", got, err)
	}
	if len(largest) != 3 {
		t.Fatalf("%d entities, want 3", len(largest))
	}
	for i, e := range largest {
		if want := fmt.Sprint("wallet-", 8-i); e.ID != want || e.Bytes == 0 || e.Version == 0 || e.Shard < 64 || i > 0 && e.Bytes >= largest[i-1].Bytes {
			t.Errorf("%d is %+v, of %+v, want %s", i, e, largest, want)
		}
	}
}

// hostRemembered starts a node with remembered entities and a singleton under a lease.
func hostRemembered(t *testing.T, url string) (node *shard.Node, stop func()) {
	t.Helper()
	n := shard.New(shard.Config{
		Cluster: "bank", Name: "w1", Transport: natstransport.New(url), Store: openStore(t, url),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	t.Cleanup(func() { _ = n.Close() })
	err := fixture.HostCashier(n, func() *fixture.Cashier { return &fixture.Cashier{} }, shard.Remember(shard.RememberOptions{}))
	if err == nil {
		err = fixture.HostChief(n, func() *fixture.Chief { return &fixture.Chief{} }, shard.Singleton(singleton.Options{Lease: true}))
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

// TestStoreClear deletes the remembered ids, the leases and the terms of a cluster that does not
// run, and nothing of another cluster. The terms stay while there are durable entities, because
// their epochs must only grow.
func TestStoreClear(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := shardctlAt(t, url)
	node, stop := hostRemembered(t, url)
	for i := range 5 {
		if _, err := fixture.NewCashierClient(node).Ref(fmt.Sprint("cashier-", i)).Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t, url)
	awaitRecords := func(prefix string, there bool) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			all, err := s.List(t.Context(), prefix)
			if err == nil && (len(all) > 0) == there {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("records of %s: %v, %v, want some: %v", prefix, all, err, there)
			}
		}
	}
	awaitRecords("remembered/bank/Cashier/", true)
	awaitRecords("terms/", true)
	const all = "store clear bank -remembered -leases -terms"
	ctl(all, exitFailed, "", "cluster bank runs, with w1 among its 1 members: stop all its processes first")
	stop()
	ctl("store clear bank2 -remembered -leases -terms", exitOK, "cluster bank2: the record of its terms is deleted, the last was 0", "")
	awaitRecords("remembered/bank/Cashier/", true)

	got := shardctl(t, map[string]string{"NATS_URL": url}, all)
	got.check(t, all, exitOK, "cluster bank: 1 leases of singletons and 0 of downing are deleted", "")
	if strings.Contains(got.stdout, ": 0 records") || !strings.Contains(got.stdout, "the last was 1\n") {
		t.Errorf("output %q, want remembered ids and the term", got.stdout)
	}
	awaitRecords("remembered/", false)
	awaitRecords("terms/", false)
	ctl(all, exitOK, "0 records of remembered ids are deleted", "") // again

	_, stop = hostRemembered(t, url) // it gets its lease at once
	awaitRecords("terms/", true)
	stop()
	wallets, stop := hostWallets(t, url)
	if _, err := wallets.Ref("wallet-1").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stop()
	ctl(all, exitFailed, "", "cluster bank has the durable type Wallet, whose epochs must stay above all earlier epochs")
	ctl("store clear bank -remembered -leases", exitOK, "1 leases of singletons", "")
	ctl("store delete Wallet -force", exitOK, "", "")
	ctl(all, exitOK, "the record of its terms is deleted", "")
}
