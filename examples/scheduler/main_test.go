package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/examples/scheduler/job"
)

// TestMain runs the tests, or a worker if the program started this one as such.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "scheduler:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestRun runs the example with fewer jobs and periods. run fails unless each period had one run.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, progress bytes.Buffer
	if err := run(ctx, []string{"-jobs", "5", "-periods", "4"}, nil, &out, &progress); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &progress)
	}
	if want := " twice=0 missing=0 early=0 "; !strings.Contains(out.String(), want) || !strings.Contains(progress.String(), "was killed") {
		t.Errorf("got %q and %q, want %q and a kill", &out, &progress, want)
	}
}

func TestTally(t *testing.T) {
	began := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name string
		due  []int // periods after began, whose runs come 10 ms late
		want string
	}{
		{"all", []int{1, 2, 3}, "0 0"},
		{"one twice", []int{1, 2, 2, 3}, "1 0"},
		{"two missing", []int{1, 4}, "0 2"},
		{"another order", []int{2, 1, 3}, "0 0"},
		{"none", nil, "0 3"},
	} {
		tally := &tally{due: map[string][]time.Time{}}
		for _, n := range test.due {
			due := began.Add(time.Duration(n) * period)
			tally.add(job.Run{Job: jobID(0), Due: due}, due.Add(10*time.Millisecond))
		}
		if twice, missing := tally.judge(1, 3); fmt.Sprint(twice, missing) != test.want {
			t.Errorf("%s: got %d twice and %d missing, want %s", test.name, twice, missing, test.want)
		}
	}
	tally := &tally{due: map[string][]time.Time{}}
	tally.add(job.Run{Job: jobID(0), Due: began}, began.Add(-time.Nanosecond))
	if tally.early != 1 {
		t.Errorf("%d runs were early, want 1", tally.early)
	}
}
