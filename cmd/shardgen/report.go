package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/shardgen/shardgen/internal/gen"
)

// A reporter prints results. Without -v, a run without mistakes prints nothing, as go generate
// does.
type reporter struct {
	stdout, stderr io.Writer
	json, verbose  bool
}

// A finding is a mistake in the source, printed as one line of JSON.
type finding struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`   // from 1
	Column   int    `json:"column,omitempty"` // from 1, in bytes
	Severity string `json:"severity"`         // always error
	Code     string `json:"code,omitempty"`   // as shardgen explain takes it; "stale" for -check
	Message  string `json:"message"`
	Mend     string `json:"mend,omitempty"`
}

func (r *reporter) run(o *gen.Outcome, err error, took time.Duration) int {
	if err != nil {
		r.failed(err)
		return exitWrong
	}
	for _, d := range o.Diagnostics {
		if r.json {
			r.print(finding{d.Pos.Filename, d.Pos.Line, d.Pos.Column, "error", string(d.Code), d.Message, d.Remedy})
		} else {
			fmt.Fprintln(r.stderr, d)
		}
	}
	for _, path := range o.Stale {
		message := "not up to date"
		if version, ok := o.Versions[path]; ok {
			message = fmt.Sprintf("not up to date: only the version of its generator differs, %s here and now %s", cmp.Or(version, "none"), gen.Version())
		}
		if r.json {
			r.print(finding{File: path, Line: 1, Column: 1, Severity: "error", Code: "stale", Message: message, Mend: "run go generate"})
		} else {
			fmt.Fprintf(r.stderr, "%s: %s (run go generate)\n", path, message)
		}
	}
	if r.verbose {
		r.details(o, took)
	}
	if len(o.Diagnostics)+len(o.Stale) > 0 {
		return exitWrong
	}
	return exitOK
}

func (r *reporter) failed(err error) {
	if r.json {
		r.print(finding{Severity: "error", Message: err.Error()})
		return
	}
	fmt.Fprintln(r.stderr, "shardgen:", err)
}

func (r *reporter) details(o *gen.Outcome, took time.Duration) {
	for _, path := range o.Packages {
		fmt.Fprintln(r.stderr, "package", path)
	}
	for _, path := range o.Written {
		fmt.Fprintln(r.stderr, "wrote", path)
	}
	fmt.Fprintf(r.stderr, "%d packages, %d files written, %d up to date, %d mistakes, %v\n",
		len(o.Packages), len(o.Written), o.UpToDate, len(o.Diagnostics), took.Round(time.Millisecond))
}

func (r *reporter) print(f finding) {
	line, err := json.Marshal(f)
	if err != nil {
		line = fmt.Appendf(nil, `{"severity":"error","message":%q}`, err)
	}
	fmt.Fprintf(r.stdout, "%s\n", line)
}
