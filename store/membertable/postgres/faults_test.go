package postgres_test

import (
	"context"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/cluster"
	"github.com/shardgen/shardgen/internal/e2e/fault"
	"github.com/shardgen/shardgen/internal/e2e/load"
	"github.com/shardgen/shardgen/internal/e2e/node"
	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store/membertable/postgres"
)

// TestMain is the process of a node, too: faults start this very program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == node.Command {
		node.Tables["postgres"] = postgres.Connect
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := node.Main(ctx, os.Args[2:], os.Stdin, os.Stdout)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestFaults: real nodes whose membership table is in PostgreSQL survive faults of nodes and of the
// table, in short forms. It does not judge times.
func TestFaults(t *testing.T) {
	address, err := natsproc.FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, address)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kill", "leave", "table-outage", "table-half", "table-split"} {
		t.Run(name, func(t *testing.T) {
			f, err := fault.ByName(name)
			if err != nil {
				t.Fatal(err)
			}
			const patience = 20 * time.Second
			for _, limit := range []*time.Duration{&f.Limits.Pause, &f.Limits.Recovery, &f.Notice} {
				if *limit > 0 {
					*limit = max(*limit, patience)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			all, err := fault.Do(ctx, f, fault.Options{
				Cluster: cluster.Options{
					Program: program, Dir: t.TempDir(), CallTimeout: patience,
					Table: "postgres://test@" + address + "/" + s.database(t),
				},
				Load: load.Options{Entities: 200, Rate: 500}, Nodes: 5, Calls: 2000, Length: min(f.Length, 4*time.Second), Times: min(f.Times, 1), Settle: patience,
			})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			misses := 0
			for _, outcome := range all {
				misses += len(outcome.Missed())
				if err := fault.Print(&text, outcome); err != nil {
					t.Fatal(err)
				}
			}
			if misses > 0 {
				t.Errorf("%d misses, want none:\n%s", misses, &text)
			}
			t.Logf("\n%s", &text)
		})
	}
}
