package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/fixture"
	shard "github.com/shardgen/shardgen/runtime"
	"github.com/shardgen/shardgen/runtime/singleton"
	natstransport "github.com/shardgen/shardgen/transport/nats"
)

// TestStoreListEntities: the largest come first, as many as are asked for.
func TestStoreListEntities(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	client, stop := hostVaults(t, url)
	for i := range 9 {
		if _, err := client.Ref(fmt.Sprint("vault-", i)).Add(t.Context(), int64(1)<<(7*i)); err != nil { // 7 bits a byte
			t.Fatal(err)
		}
	}
	stop()
	got := shardctl(t, map[string]string{"NATS_URL": url}, "store list Vault -json -n 3")
	var largest []storedEntity
	if err := json.Unmarshal([]byte(got.stdout), &largest); err != nil || got.code != exitOK {
		t.Fatalf("%+v: %v", got, err)
	}
	if len(largest) != 3 {
		t.Fatalf("%d entities, want 3", len(largest))
	}
	for i, e := range largest {
		if want := fmt.Sprint("vault-", 8-i); e.ID != want || e.Bytes == 0 || e.Version == 0 || e.Shard < 64 || i > 0 && e.Bytes >= largest[i-1].Bytes {
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
	err := fixture.HostDesk(n, func() *fixture.Desk { return &fixture.Desk{} }, shard.Remember(shard.RememberOptions{}))
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

// TestStoreClear deletes the remembered ids, the leases and the terms of a cluster that does not run, and
// nothing of another. The terms stay while there are durable entities, whose epochs only grow.
func TestStoreClear(t *testing.T) {
	url := runJetStream(t, t.TempDir()).URL()
	ctl := func(args string, code int, stdout, stderr string) {
		t.Helper()
		shardctl(t, map[string]string{"NATS_URL": url}, args).check(t, args, code, stdout, stderr)
	}
	node, stop := hostRemembered(t, url)
	for i := range 5 {
		if _, err := fixture.NewDeskClient(node).Ref(fmt.Sprint("desk-", i)).Read(t.Context()); err != nil {
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
	awaitRecords("remembered/bank/Desk/", true)
	awaitRecords("terms/", true)
	const all = "store clear bank -remembered -leases -terms"
	ctl(all, exitFailed, "", "cluster bank runs, with w1 among its 1 members: stop all its processes first")
	stop()
	ctl("store clear bank2 -remembered -leases -terms", exitOK, "cluster bank2: the record of its terms is deleted, the last was 0", "")
	awaitRecords("remembered/bank/Desk/", true)

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
	vaults, stop := hostVaults(t, url)
	if _, err := vaults.Ref("vault-1").Add(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stop()
	ctl(all, exitFailed, "", "cluster bank has the durable type Vault, whose epochs must stay above all earlier ones")
	ctl("store clear bank -remembered -leases", exitOK, "1 leases of singletons", "")
	ctl("store delete Vault -force", exitOK, "", "")
	ctl(all, exitOK, "the record of its terms is deleted", "")
}
