package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// Evidence is what an observer holds against a member. A higher one is stronger.
type Evidence uint8

// The kinds of evidence.
const (
	// NoEvidence: the member is reachable.
	NoEvidence Evidence = iota
	// EvidenceSilent: it does not answer, and the broker does not say why.
	EvidenceSilent
	// EvidenceCut: the broker knows nobody who listens for it, but it was last
	// connected to another server than the observer: the way may be broken, not
	// the member.
	EvidenceCut
	// EvidenceGone: the server that both were connected to has lost it.
	EvidenceGone
)

// String names the evidence.
func (e Evidence) String() string {
	switch e {
	case NoEvidence:
		return "none"
	case EvidenceSilent:
		return "silent"
	case EvidenceCut:
		return "cut"
	case EvidenceGone:
		return "gone"
	}
	return "unknown"
}

// An ObserverRow is what one member says about those it cannot reach. Only the
// observer changes it, and counts Version up with each change, so of two rows
// the higher version replaces the other as a whole.
type ObserverRow struct {
	Observer transport.Address // whose word it is
	Version  uint64            // how often the observer has changed it
	Records  []Record          // by subject
}

// A Record says that the observer cannot reach Subject.
type Record struct {
	Subject  transport.Address // who cannot be reached
	Evidence Evidence          // what is held against it
	// Quiet is how long the subject had not answered when the record was made,
	// in milliseconds.
	Quiet time.Duration
	// Word is how long ago the observer last gave the subject its word, by which
	// leases go, in milliseconds and at least one: it says so once it knows the
	// subject to be Down, and gives no other from then on. 0: it does not say. See
	// word.go.
	Word time.Duration
}

// String is the row's content: "a v3: b silent, c gone".
func (r ObserverRow) String() string {
	words := make([]string, len(r.Records))
	for i, rec := range r.Records {
		words[i] = fmt.Sprintf("%s %v", rec.Subject.Name, rec.Evidence)
	}
	return fmt.Sprintf("%s v%d: %s", r.Observer.Name, r.Version, strings.Join(words, ", "))
}

func compareRow(r ObserverRow, a transport.Address) int     { return r.Observer.Compare(a) }
func compareRecord(r Record, a transport.Address) int       { return r.Subject.Compare(a) }
func compareTombstone(t Tombstone, a transport.Address) int { return t.Node.Compare(a) }

// mergeRows keeps each observer's newest row, without observers and subjects
// that are removed.
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

// pruneRows changes rows, but not the records that they share with others.
func pruneRows(rows []ObserverRow, removed func(transport.Address) bool) []ObserverRow {
	rows = slices.DeleteFunc(rows, func(r ObserverRow) bool { return removed(r.Observer) })
	for i, row := range rows {
		if slices.ContainsFunc(row.Records, func(r Record) bool { return removed(r.Subject) }) {
			rows[i].Records = slices.DeleteFunc(slices.Clone(row.Records), func(r Record) bool { return removed(r.Subject) })
		}
	}
	return rows
}

// withRecord returns the rows with the observer's word about rec.Subject;
// NoEvidence takes it back.
func withRecord(rows []ObserverRow, observer transport.Address, rec Record) []ObserverRow {
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

// quiet is for how long each member, in their order, had not answered in any
// observer's eyes when its record was made.
func (g *Gossip) quiet() []time.Duration {
	quiet := make([]time.Duration, len(g.Members))
	for _, row := range g.Rows {
		for _, r := range row.Records {
			if i, ok := g.place(r.Subject); ok {
				quiet[i] = max(quiet[i], r.Quiet)
			}
		}
	}
	return quiet
}
