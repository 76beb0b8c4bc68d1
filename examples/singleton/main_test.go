package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRun runs the example with fewer jobs. run fails unless every job was done once.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), 30, 5, 5*time.Millisecond, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if want := "twice=0 missing=0 homes=n1,n2,n3 "; !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want it to hold %q", out.String(), want)
	}
}

// TestRunIsStopped: without time for its jobs, run returns the error of its context.
func TestRunIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, 30, 5, time.Hour, &strings.Builder{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
