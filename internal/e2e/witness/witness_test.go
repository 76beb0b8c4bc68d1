package witness

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, path string, records ...Record) {
	t.Helper()
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r.Entity, r.Sender, r.Seq); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReadMerges reads the records of two processes in the order in which they
// were written.
func TestReadMerges(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	want := []Record{{Entity: "a b", Sender: "s", Seq: 1}, {Entity: "\n\"", Sender: "ü", Seq: 1 << 63}, {Entity: "a b", Sender: "s", Seq: 2}}
	write(t, one, want[0])
	write(t, two, want[1:]...)
	// A killed process may leave half a line behind.
	f, err := os.OpenFile(one, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`1234 "a`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Read(two, one)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].At == 0 {
			t.Errorf("record %d has no time", i)
		}
		got[i].At = 0
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	write(t, path, Record{Entity: "a", Sender: "s", Seq: 1})
	if _, err := Create(path); err == nil {
		t.Error("created the witness of another process")
	}
	if err := os.WriteFile(path, []byte("1 \"a\" \"s\" 1\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("read nonsense: %v, want line 2 in it", err)
	}
	if _, err := Read(path + "-none"); err == nil {
		t.Error("read a file that is not there")
	}
}
