package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/internal/test/pgproc"
)

// TestMain is a worker, too: the test starts this very program.
func TestMain(m *testing.M) {
	if os.Getenv("SHARD_EXAMPLE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestExample: the table shows two workers. After one was killed it shows that, and the other goes on
// to count.
func TestExample(t *testing.T) {
	db := pgproc.Start(t, "", func(ctx context.Context, source string) error {
		conn, err := pgx.Connect(ctx, source)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
	broker := natsproc.Start(t, "-js", "-sd", t.TempDir())
	worker := func(name string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-db", db.Source("postgres"), "-nats", broker.URL(), "-name", name)
		cmd.Env = append(os.Environ(), "SHARD_EXAMPLE=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd, bufio.NewScanner(out)
	}
	await := func(lines *bufio.Scanner, want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the worker ended before it printed %q", want)
	}
	_, first := worker("a")
	await(first, "total: 1")
	killed, second := worker("b")
	await(second, "members: a active, b active")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(first, "b dead")
	await(first, "total: ")
}
