package main

import (
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
