package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/natsproc"
	"github.com/shardgen/shardgen/store"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

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
	if _, err := s.Last(t.Context(), store.Shard{Type: "Vault", Number: 64}); err != nil { // creates the streams
		t.Fatal(err)
	}
	s.Close()
	client, stop := hostVaults(t, servers[0].URL())
	fillVaults(t, client)
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
	client, stop = hostVaults(t, restored[1].URL())
	defer stop()
	checkVaults(t, client)
	if got, err := client.Ref("vault-3").Add(t.Context(), 1); err != nil || got != 5 {
		t.Errorf("after the restore: %d, %v, want 5", got, err)
	}
}
