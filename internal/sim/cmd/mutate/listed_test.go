package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListedMutants: each listed mutant can still be made, and the test that notices it
// still exists.
func TestListedMutants(t *testing.T) {
	t.Chdir("../../../..") // the module's root, where the command runs
	for i, l := range listed {
		if l.number != i || l.breaks == "" {
			t.Errorf("mutant at position %d has number %d and breaks %q", i, l.number, l.breaks)
		}
		if l.gone != "" {
			if l.file != "" || l.before != "" || l.run != "" {
				t.Errorf("mutant %d is gone, and has a line or a test", l.number)
			}
			continue
		}
		m, err := l.mutant()
		if err != nil {
			t.Error(err)
			continue
		}
		if l.before == l.after || m.dir != filepath.Dir(l.file) {
			t.Errorf("mutant %d changes nothing", l.number)
		}
		checkTests(t, l)
	}
}

// checkTests fails unless the named tests, and the transcript if one is named, exist.
func checkTests(t *testing.T, l listedMutant) {
	t.Helper()
	dir := cmp.Or(l.pkg, filepath.Dir(l.file))
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	name, transcript, _ := strings.Cut(l.run, "/")
	if !strings.Contains(all.String(), "\nfunc "+name+"(") {
		t.Errorf("mutant %d: no test %q in %s", l.number, name, dir)
	}
	if name != "TestTranscripts" || transcript == "" {
		return
	}
	if _, err := os.Stat(filepath.Join(dir, "testdata", transcript+".txt")); err != nil {
		t.Errorf("mutant %d: %v", l.number, err)
	}
}
