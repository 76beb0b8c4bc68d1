package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"text/template"
	"time"
)

// jsonFlags adds the flags -json and -template. Both set *want to true, and -template also sets
// *form to the template.
func jsonFlags(f *flag.FlagSet, want *bool, form **template.Template) {
	f.BoolVar(want, "json", false, "print JSON")
	f.Func("template", "print each JSON document by a Go `template`, such as '{{range .members}}{{.name}} {{end}}'", func(text string) (err error) {
		*want = true
		*form, err = template.New("-template").Parse(text)
		return err
	})
}

// printBy runs the function do, and prints the JSON that do writes: by the template in form, or
// unchanged if form is nil.
func printBy(form *template.Template, w io.Writer, do func(io.Writer) error) error {
	if form == nil {
		return do(w)
	}
	return do(&documents{to: w, form: form})
}

// A documents is a writer of JSON documents, each of which it prints by a template.
type documents struct {
	to   io.Writer
	form *template.Template
	rest []byte // the beginning of a document
}

func (d *documents) Write(p []byte) (int, error) {
	d.rest = append(d.rest, p...)
	for {
		decoder := json.NewDecoder(bytes.NewReader(d.rest))
		decoder.UseNumber()
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return len(p), nil
		} else if err != nil {
			return 0, err
		}
		d.rest = d.rest[decoder.InputOffset():]
		var text bytes.Buffer
		if err := d.form.Execute(&text, document); err != nil {
			return 0, err
		}
		if !bytes.HasSuffix(text.Bytes(), []byte("\n")) {
			text.WriteByte('\n')
		}
		if _, err := d.to.Write(text.Bytes()); err != nil {
			return 0, err
		}
	}
}

// repeat runs a command once or, if every is not 0, until ctx ends. On a terminal each run clears the screen.
func repeat(ctx context.Context, every time.Duration, stdout, stderr io.Writer, do func() error) error {
	for {
		if every > 0 && isTerminal(stdout) {
			fmt.Fprint(stdout, "\x1b[H\x1b[2J")
		}
		err := do()
		if every == 0 {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(stderr, "shardctl:", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Colours of words on a terminal, by ECMA-48.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

// colours has the colours of words with which lines of status and doctor begin.
var colours = map[string]string{"wrong:": red, "WRONG": red, "note:": yellow, "note": yellow, "ok": green}

// paint colours the first word of each line, if w is a terminal and NO_COLOR is not set (no-color.org).
func paint(w io.Writer, text string) string {
	if !isTerminal(w) || os.Getenv("NO_COLOR") != "" {
		return text
	}
	return painted(text)
}

func painted(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		word, _, _ := strings.Cut(line, " ")
		if c := colours[word]; c != "" {
			line = "\x1b[" + c + "m" + word + "\x1b[0m" + line[len(word):]
		}
		b.WriteString(line)
	}
	return b.String()
}
