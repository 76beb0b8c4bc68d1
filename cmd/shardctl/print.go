package main

import (
	"encoding/json"
	"fmt"
	"io"

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
