package gossip

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// An ObserverRow holds one observer's records of the members that it cannot reach. Only the
// observer changes the row, and it increments Version with each change. So of two states of a row,
// the one with the higher Version replaces the other.
type ObserverRow struct {
	Observer transport.Address // the member that made the observations
	Version  uint64            // the number of changes by the observer
	Records  []Record          // by subject
}

// A Record is one observation: the observer cannot reach Subject.
type Record struct {
	Subject  transport.Address // the member that cannot be reached
	Evidence Evidence          // the reason; never NoEvidence
	// Quiet is how long the subject had not answered when the record was made,
	// in whole milliseconds.
	Quiet time.Duration
	// Vouched is how long before the record the observer last vouched for the subject's lease, in
	// whole milliseconds and at least one. It is set once the observer knows the subject to be
	// Down, and therefore never vouches for it again. 0 means that the time is not known. See
	// package detector.
	Vouched time.Duration
}

// String returns the row's content: "a v3: b silent, c gone".
func (r ObserverRow) String() string {
	words := make([]string, len(r.Records))
	for i, rec := range r.Records {
		words[i] = fmt.Sprintf("%s %v", rec.Subject.Name, rec.Evidence)
	}
	return fmt.Sprintf("%s v%d: %s", r.Observer.Name, r.Version, strings.Join(words, ", "))
}

func compareRow(r ObserverRow, a transport.Address) int { return r.Observer.Compare(a) }
func compareRecord(r Record, a transport.Address) int   { return r.Subject.Compare(a) }

// RecordOf returns the record about subject among one observer's records.
func RecordOf(records []Record, subject transport.Address) (Record, bool) {
	i, ok := slices.BinarySearchFunc(records, subject, compareRecord)
	if !ok {
		return Record{}, false
	}
	return records[i], true
}

// HasRecord reports whether one observer's records include one about subject.
func HasRecord(records []Record, subject transport.Address) bool {
	_, ok := slices.BinarySearchFunc(records, subject, compareRecord)
	return ok
}

// WithRecord returns rows in which rec replaces the record of observer about rec.Subject. A rec
// with NoEvidence removes that record.
func WithRecord(rows []ObserverRow, observer transport.Address, rec Record) []ObserverRow {
	rows = slices.Clone(rows)
	i, ok := slices.BinarySearchFunc(rows, observer, compareRow)
	if !ok {
		rows = slices.Insert(rows, i, ObserverRow{Observer: observer})
	}
	row := rows[i]
	row.Version++
	row.Records = slices.Clone(row.Records)
	j, found := slices.BinarySearchFunc(row.Records, rec.Subject, compareRecord)
	switch {
	case rec.Evidence == NoEvidence && found:
		row.Records = slices.Delete(row.Records, j, j+1)
	case rec.Evidence == NoEvidence:
	case found:
		row.Records[j] = rec
	default:
		row.Records = slices.Insert(row.Records, j, rec)
	}
	rows[i] = row
	return rows
}

// mergeRows keeps each observer's newest row, and drops removed observers and subjects.
func mergeRows(a, b []ObserverRow, removed func(transport.Address) bool) []ObserverRow {
	merged := slices.Clone(a)
	for _, row := range b {
		i, ok := slices.BinarySearchFunc(merged, row.Observer, compareRow)
		switch {
		case !ok:
			merged = slices.Insert(merged, i, row)
		case row.Version > merged[i].Version:
			merged[i] = row
		}
	}
	return pruneRows(merged, removed)
}

// pruneRows drops removed observers and subjects. It changes rows, but not records, which other
// slices share.
func pruneRows(rows []ObserverRow, removed func(transport.Address) bool) []ObserverRow {
	rows = slices.DeleteFunc(rows, func(r ObserverRow) bool { return removed(r.Observer) })
	for i, row := range rows {
		if slices.ContainsFunc(row.Records, func(r Record) bool { return removed(r.Subject) }) {
			rows[i].Records = slices.DeleteFunc(slices.Clone(row.Records), func(r Record) bool { return removed(r.Subject) })
		}
	}
	return rows
}
