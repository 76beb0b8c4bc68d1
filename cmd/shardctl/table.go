package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// tableWidth is how wide a table is at most, in columns of a terminal.
const tableWidth = 80

// tableGap stands between two columns.
const tableGap = "  "

// narrowest is how far a column is clipped at most.
const narrowest = 8

// A table is printed in columns, at most tableWidth wide unless it is wide: its widest columns are
// clipped then. The first row is the header.
type table struct {
	wide bool
	rows [][]string
}

// tableOf returns a table with a header.
func tableOf(o *options, header ...string) *table {
	return &table{wide: o.wide, rows: [][]string{header}}
}

// row appends a row.
func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// print prints the table.
func (t *table) print(w io.Writer) error {
	widths := t.widths()
	var b strings.Builder
	for _, row := range t.rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString(tableGap)
			}
			fmt.Fprintf(&line, "%-*s", widths[i], clipMiddle(cell, widths[i]))
		}
		fmt.Fprintln(&b, strings.TrimRight(line.String(), " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// widths are those of the columns. Where the table is too wide, the widest columns give way.
func (t *table) widths() []int {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for !t.wide {
		sum, widest := len(tableGap)*(len(widths)-1), 0
		for i, n := range widths {
			sum += n
			if n > widths[widest] {
				widest = i
			}
		}
		if sum <= tableWidth || widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return widths
}

// clipMiddle shortens a text to width characters. It keeps both ends, which say most about a name.
func clipMiddle(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	head := width / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-head-1):])
}
