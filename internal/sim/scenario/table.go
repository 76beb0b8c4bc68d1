package scenario

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// A Result has the figures of a scenario. Traffic is that of healthy nodes, sent
// plus received.
type Result struct {
	Scenario string
	Nodes    int
	Seed     uint64
	// Detection is that of all nodes.
	Detection membership.Detection
	Err       error // a broken invariant

	// Of the pairs of a healthy node and a victim, Detected saw the victim Down or
	// removed; the times are from the fault on, -1 when there is none.
	Detected, Expected int
	P50, P99           time.Duration
	Removed            int           // healthy members that were removed
	Views              int           // distinct sets of members that anybody healthy published after the fault
	OwnViews           int           // the most that one of them went through
	Settled            time.Duration // from the fault until the healthy agreed for good; -1: they do not

	Bytes, MostBytes float64 // payload per node and second: the mean, and that of the busiest
	Subjects, Echo   float64 // bytes of subjects, and of own echoes' payload, per node and second
	Messages         float64 // per node and second, echoes included
	Kinds            map[string]float64

	Hash    uint64
	Steps   uint64
	Virtual time.Duration
}

var columns = []string{
	"scenario", "nodes", "detected", "p50", "p99", "healthy removed", "views", "of one node", "settled",
	"B/s", "busiest", "subject B/s", "echo B/s", "msg/s",
}

func (r Result) cells() []string {
	detected := "-"
	if r.Expected > 0 {
		detected = fmt.Sprintf("%d of %d", r.Detected, r.Expected)
	}
	settled := "not"
	if r.Settled >= 0 {
		settled = seconds(r.Settled)
	}
	return []string{
		r.Scenario, fmt.Sprint(r.Nodes), detected, seconds(r.P50), seconds(r.P99), fmt.Sprint(r.Removed),
		fmt.Sprint(r.Views), fmt.Sprint(r.OwnViews), settled,
		fmt.Sprintf("%.0f", r.Bytes), fmt.Sprintf("%.0f", r.MostBytes), fmt.Sprintf("%.0f", r.Subjects),
		fmt.Sprintf("%.0f", r.Echo), fmt.Sprintf("%.1f", r.Messages),
	}
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// Print writes the results as a table for a terminal.
func Print(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(columns, "\t"))
	for _, r := range results {
		fmt.Fprintln(t, strings.Join(r.cells(), "\t"))
	}
	return t.Flush()
}

// PrintKinds writes the traffic by kinds of messages.
func PrintKinds(w io.Writer, r Result) error {
	type part struct {
		kind  string
		bytes float64
	}
	var parts []part
	//arch:order-free sorted next
	for kind, bytes := range r.Kinds {
		parts = append(parts, part{kind, bytes})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.kind, b.kind) })
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = fmt.Sprintf("%s %.1f", p.kind, p.bytes)
	}
	_, err := fmt.Fprintf(w, "bytes per node and second: %s\n", strings.Join(words, ", "))
	return err
}
