package main

import (
	"fmt"
	"io"
	"strings"
)

// columns are the other projects that have a column each.
var columns = []string{"protoactor", "grpc"}

// printTable prints all rows, and below them the first error of each cell that had one.
func printTable(w io.Writer, groups []group, tables []results) {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	p("| case | shardgen | by hand | ÷ by hand | %s | ÷ best peer |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", 5+len(columns)))
	for i, g := range groups {
		for _, ours := range g.ours {
			for _, r := range g.rows {
				p("%s\n", r.line(g, tables[i], ours))
			}
		}
	}
	p("\n")
	for i, g := range groups {
		for _, name := range g.contestants() {
			for round, r := range tables[i][name] {
				if r.Error != "" {
					p("- %s, %s, round %d: %s\n", g.rows[0].title, name, round+1, r.Error)
				}
			}
		}
	}
}
