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

func printJSONLine(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

func stringsOf(nodes []transport.Address) (all []string) {
	for _, a := range nodes {
		all = append(all, a.String())
	}
	return all
}

// A jsonDone is the output of a command that a node carried out. Fields are added, never changed.
type jsonDone struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Result  string `json:"result"`
}

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

func orErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

const tableWidth = 80

const tableGap = "  "

const narrowest = 8

// A table clips its widest columns to tableWidth, unless wide is set. The first row is the header.
type table struct {
	wide bool
	rows [][]string
}

func tableOf(o *options, header ...string) *table {
	return &table{wide: o.wide, rows: [][]string{header}}
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

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

// widths returns columns' widths, narrowed if the table is too wide.
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

// clipMiddle cuts out the middle, because a name's ends say most about it.
func clipMiddle(text string, width int) string {
	runes := []rune(text)
	if len(runes) <= width {
		return text
	}
	head := width / 2
	return string(runes[:head]) + "…" + string(runes[len(runes)-(width-head-1):])
}

// textOf returns an id for JSON, in base64 if it is not UTF-8.
func textOf(id string) (text string, binary bool) {
	if utf8.ValidString(id) {
		return id, false
	}
	return base64.StdEncoding.EncodeToString([]byte(id)), true
}

// idOf reverses textOf.
func idOf(text string, binary bool) (string, error) {
	if !binary {
		return text, nil
	}
	id, err := base64.StdEncoding.DecodeString(text)
	return string(id), err
}
