package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"
)

// TestMain runs the tests, or a worker if the demonstration started this program as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "thumbnails:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestKilledWorkersMissNothing kills a worker with SIGKILL under load, and checks that no picture
// failed: a resizer's method may run twice, so a failed call is repeated.
func TestKilledWorkersMissNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, progress bytes.Buffer
	if err := run(ctx, []string{"-pictures", "200", "-kills", "1"}, nil, &out, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), progress.String())
	}
	if want := `^thumbnails=200 missing=0 failed=0 killed=1 resizers=2\.\.\d+ slowest=\S+ seconds=\S+\n$`; !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("got %q, want it to match %s\n%s", out.String(), want, progress.String())
	}
}
