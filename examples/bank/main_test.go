package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain runs the tests, or a worker if the demonstration started this program as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "bank:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestKilledWorkersLoseNothing kills workers with SIGKILL under load, and checks that no entry is
// lost or doubled.
func TestKilledWorkersLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, progress bytes.Buffer
	if err := run(ctx, []string{"-transfers", "500", "-kills", "2"}, nil, &out, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	if got := out.String(); !strings.HasSuffix(got, " lost=0 doubled=0 sum=kept\n") {
		t.Errorf("got %q\n%s", got, progress.String())
	}
}
