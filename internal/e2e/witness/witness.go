// Package witness records in files the calls that ran, because the memory of a killed process is
// lost.
package witness

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/shardgen/shardgen/internal/e2e/wallclock"
)

// A Record is one call that ran.
type Record struct {
	// At is when the call ran, in nanoseconds of the machine's clock. A process may have a wrong
	// clock of its own, and records of several processes are compared.
	At     int64
	Entity string
	Sender string
	Seq    uint64
}

// A Writer appends records to a file. It is safe for concurrent use.
type Writer struct{ file *os.File }

// Create creates the file of one process. It fails if the file exists.
func Create(path string) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Writer{f}, nil
}

// Write records a call that runs now, by one unbuffered write. The record then survives the death
// of the process, but not a crash of the machine.
func (w *Writer) Write(entity, sender string, seq uint64) error {
	_, err := fmt.Fprintf(w.file, "%d %q %q %d\n", wallclock.Now().UnixNano(), entity, sender, seq)
	return err
}

func (w *Writer) Close() error { return w.file.Close() }

// Read returns the records in the files of several processes, ordered by time. It skips a file's
// last line if that is incomplete because the writer was killed.
func Read(paths ...string) ([]Record, error) {
	var all []Record
	for _, path := range paths {
		records, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read witness: %s: %w", path, err)
		}
		all = append(all, records...)
	}
	slices.SortStableFunc(all, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
	return all, nil
}

func readFile(path string) (records []Record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return records, nil // the end, perhaps in the middle of a line
		}
		var r Record
		if _, err := fmt.Sscanf(line, "%d %q %q %d\n", &r.At, &r.Entity, &r.Sender, &r.Seq); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
}
