package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/shardgen/shardgen/transport"
)

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // subjects have a >
	return e.Encode(v)
}

// printJSONLine prints one value on one line.
func printJSONLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

func stringsOf(nodes []transport.Address) (all []string) {
	for _, a := range nodes {
		all = append(all, a.String())
	}
	return all
}

// The JSON of a command that was carried out at a node. Fields are added, never changed.
type jsonDone struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Result  string `json:"result"`
}

// printDone prints that a command was carried out, or returns err.
func printDone(w io.Writer, o *options, node transport.Address, result string, err error) error {
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(w, jsonDone{o.cluster, node.String(), result})
	}
	_, err = fmt.Fprintf(w, "%v %s\n", node, result)
	return err
}

// orErr returns a, or b if a is nil.
func orErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

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

// textOf is an id as JSON has it: an id that is not UTF-8 is in base64.
func textOf(id string) (text string, binary bool) {
	if utf8.ValidString(id) {
		return id, false
	}
	return base64.StdEncoding.EncodeToString([]byte(id)), true
}

// idOf is the reverse of textOf.
func idOf(text string, binary bool) (string, error) {
	if !binary {
		return text, nil
	}
	id, err := base64.StdEncoding.DecodeString(text)
	return string(id), err
}
