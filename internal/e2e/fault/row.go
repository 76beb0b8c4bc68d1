package fault

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/internal/e2e/load"
)

// A Row has the figures of one run of a fault.
type Row struct {
	Fault string
	load.Verdict
	load.Timing
	Notes  []string // further figures, in words
	Errors []string // the first that callers got
	Misses []string // figures over their limits; none when the run passed
}

// Print writes the row below its header, and its notes.
func (r Row) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "fault\tcalls\tfailed\tunknown\tlost\tdoubled\tout of order\tmisstated\tlongest pause\tall succeed after")
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\n", r.Fault, r.Calls, r.Failed, r.Unknown, r.Lost,
		r.Doubled, r.Disorder, r.Misstated, round(r.Longest), round(r.Recovery))
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range slices.Concat(r.Notes, r.Errors, r.Examples) {
		fmt.Fprintln(w, line)
	}
	for _, m := range r.Misses {
		fmt.Fprintln(w, "miss:", m)
	}
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
