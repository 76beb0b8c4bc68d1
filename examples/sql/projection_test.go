package sql

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/events/account"
	"github.com/shardgen/shardgen/examples/events/projection"
	shard "github.com/shardgen/shardgen/runtime"
)

// TestProjectionAppliesEachEntryOnce repeatedly kills the process that keeps the table, while
// entries are made. In the end the table must have each entry once.
func TestProjectionAppliesEachEntryOnce(t *testing.T) {
	onEach(t, func(t *testing.T, driver, source string) {
		const accounts, rounds, perRound = 5, 4, 100
		db, url := open(t, driver, source), startServer(t)
		if err := projection.Create(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		node, err := newNode(t.Context(), url, "bank", func(n *shard.Node) error {
			return account.HostAccount(n, func() *account.Account { return &account.Account{} })
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		client := account.NewAccountClient(node)
		ps := newProcesses(t)
		follower := func() *process {
			return ps.start("follower", []string{role + "=follow"}, url, driver, source)
		}
		var want [accounts]int64
		for round := range rounds {
			f := follower()
			for i := range perRound {
				n := int64(round*perRound + i)
				if _, err := client.Ref(fmt.Sprint(n%accounts)).Enter(t.Context(), n, "salary"); err != nil {
					t.Fatal(err)
				}
				want[n%accounts] += n
			}
			waitForEntries(t, db, round*perRound+perRound/2) // and be killed with the rest to do
			f.kill()
		}
		follower()
		waitForEntries(t, db, rounds*perRound)
		for i := range accounts {
			var cents int64
			if err := db.QueryRow(`SELECT cents FROM balance WHERE account = $1`, fmt.Sprint(i)).Scan(&cents); err != nil {
				t.Fatal(err)
			}
			if cents != want[i] {
				t.Errorf("account %d has %d in the table, want %d", i, cents, want[i])
			}
		}
	})
}

// waitForEntries waits until the table contains at least n entries.
func waitForEntries(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for again := time.Tick(5 * time.Millisecond); ; <-again {
		var has int
		if err := db.QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(entries), 0) AS BIGINT) FROM balance`).Scan(&has); err != nil {
			t.Fatalf("%d of %d entries: %v", has, n, err)
		}
		if has >= n {
			return
		}
	}
}
