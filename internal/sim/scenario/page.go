package scenario

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/membership"
)

// preface stands before the tables, and closing after them.
var (
	//go:embed preface.md
	preface string
	//go:embed closing.md
	closing string
)

// A Job is one row of the page.
type Job struct {
	Scenario Scenario
	Options  Options
}

// Page lists the rows of the page: each scenario at each of its sizes, without
// clusters that are larger than largest, if that is not 0.
func Page(seed uint64, largest int) []Job {
	var jobs []Job
	for _, s := range All() {
		for _, size := range s.Sizes {
			if largest > 0 && size > largest {
				continue
			}
			jobs = append(jobs, Job{s, Options{Nodes: size, Seed: seed}})
			if slices.Contains(s.Compared, size) {
				jobs = append(jobs, Job{s, Options{Nodes: size, Seed: seed, Detection: membership.DetectionSingleObserver}})
			}
		}
	}
	return jobs
}

// Command returns the command line that makes the row again.
func (r Result) Command() string {
	command := fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario %s -nodes %d -seed %d", r.Scenario, r.Nodes, r.Seed)
	if r.Detection != 0 {
		command += fmt.Sprintf(" -detection %q", r.Detection)
	}
	return command
}

// pageCommand stands in the preface for the command that writes the page.
const pageCommand = "COMMAND"

// WritePage writes internal/sim/README.md from the results of the jobs. Command is
// the command line that does so.
func WritePage(w io.Writer, command string, results []Result) error {
	var b strings.Builder
	b.WriteString(strings.Replace(preface, pageCommand, command, 1))
	for _, s := range All() {
		var rows, compared []Result
		for _, r := range results {
			switch {
			case r.Scenario != s.Name:
			case r.Detection == membership.DetectionManyEdges:
				rows = append(rows, r)
			default:
				compared = append(compared, r)
			}
		}
		if len(rows) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Name, s.About)
			writeTable(&b, rows)
		}
		if len(compared) > 0 {
			fmt.Fprintf(&b, "\nWith detection by a %v, the rule of the Akka Cluster specification:\n\n", compared[0].Detection)
			writeTable(&b, compared)
		}
	}
	b.WriteString("\n" + closing)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable leaves out the scenario's name, and puts the commands below.
func writeTable(b *strings.Builder, rows []Result) {
	heads := columns[1:]
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" ---: |", len(heads)))
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(r.cells()[1:], " | "))
	}
	b.WriteString("\n```\n")
	for _, r := range rows {
		fmt.Fprintln(b, r.Command())
	}
	b.WriteString("```\n")
}
