package scenario

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// preface stands before the tables.
//
//go:embed preface.md
var preface string

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
		}
	}
	return jobs
}

// Command is how a row is made again.
func (r Result) Command() string {
	return fmt.Sprintf("go run ./internal/sim/cmd/simulate -scenario %s -nodes %d -seed %d", r.Scenario, r.Nodes, r.Seed)
}

// pageCommand stands in the preface for the command that writes the page.
const pageCommand = "COMMAND"

// WritePage writes docs/membership.md from the results of the jobs. Command is
// the one that does so.
func WritePage(w io.Writer, command string, results []Result) error {
	var b strings.Builder
	b.WriteString(strings.Replace(preface, pageCommand, command, 1))
	for _, s := range All() {
		rows := make([]Result, 0, len(s.Sizes))
		for _, r := range results {
			if r.Scenario == s.Name {
				rows = append(rows, r)
			}
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", s.Name, s.About)
		writeTable(&b, rows)
	}
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
