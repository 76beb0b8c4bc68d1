package scenario

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/sim"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Result has the figures of a scenario. Its traffic is that of the healthy nodes.
type Result struct {
	Scenario string
	Nodes    int
	Seed     uint64
	// Detection is the Detection of all nodes.
	Detection membership.Detection
	Table     bool  // the nodes agreed by a table
	Err       error // a broken invariant

	// Expected is the number of pairs of a healthy node and a victim. Detected is the number of
	// these pairs in which the node saw the victim Down or removed. P50 and P99 count from the
	// fault; -1 means none.
	Detected, Expected int
	P50, P99           time.Duration
	Removed            int           // healthy members that were removed or stopped
	Views              int           // distinct sets of members in the views of healthy nodes after the fault
	Settled            time.Duration // from the fault until the healthy nodes agreed and stayed so; -1 means never

	Bytes, MostBytes float64 // payload per node and second: the mean, and that of the busiest
	Messages         float64 // per node and second, echoes included
	Kinds            map[string]float64

	TableStats sim.TableStats // counted from the beginning of a run with a membership table

	Hash    uint64
	Steps   uint64
	Virtual time.Duration
}

var columns = []string{"scenario", "nodes", "detected", "p50", "p99", "removed", "views", "settled", "B/s", "busiest", "msg/s"}

func (r Result) cells() []string {
	name, detected, settled := r.Scenario, "-", "not"
	if r.Detection == membership.DetectionSingleObserver {
		name += " ¹"
	}
	if r.Expected > 0 {
		detected = fmt.Sprintf("%d%%", 100*r.Detected/r.Expected)
	}
	if r.Settled >= 0 {
		settled = seconds(r.Settled)
	}
	return []string{
		name, fmt.Sprint(r.Nodes), detected, seconds(r.P50), seconds(r.P99), fmt.Sprint(r.Removed), fmt.Sprint(r.Views), settled,
		fmt.Sprintf("%.0f", r.Bytes), fmt.Sprintf("%.0f", r.MostBytes), fmt.Sprintf("%.1f", r.Messages),
	}
}

// Command returns the command that computes the row again.
func (r Result) Command() string {
	command := fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario %s -nodes %d -seed %d", r.Scenario, r.Nodes, r.Seed)
	if r.Table {
		command += " -membership table"
	}
	if r.Detection != 0 {
		command += fmt.Sprintf(" -detection %q", r.Detection)
	}
	return command
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// Print writes the results as a table in Markdown.
func Print(w io.Writer, results []Result) error {
	row := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	text := row(columns) + "| ---" + strings.Repeat(" | ---:", len(columns)-1) + " |\n"
	for _, r := range results {
		text += row(r.cells())
	}
	_, err := io.WriteString(w, text)
	return err
}

// PrintKinds writes the traffic of each kind of message.
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
