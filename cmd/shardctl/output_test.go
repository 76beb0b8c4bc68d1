package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTemplate: each JSON document is printed by the template, however it is written.
func TestTemplate(t *testing.T) {
	form := template.Must(template.New("").Parse(`{{.n}}{{range .all}} {{.}}{{end}}`))
	for _, parts := range [][]string{{`{"n":12345678901,"all":["a","b"]}` + "\n" + `{"n":2}`}, {`{"n":1234`, `5678901,"all":["a","b"]}`, `{"n":2}` + "\n"}} {
		var b bytes.Buffer
		require.NoError(t, printBy(form, &b, func(w io.Writer) error {
			for _, p := range parts {
				if _, err := io.WriteString(w, p); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Equal(t, "12345678901 a b\n2\n", b.String())
	}
	err := printBy(form, io.Discard, func(w io.Writer) error { return printJSON(w, map[string]any{"all": 7}) })
	require.ErrorContains(t, err, "range can't iterate over 7")
	shardctl(t, nil, "members -cluster c -template {{").check(t, "a bad template", exitUsage, "", "unclosed action")
	shardctl(t, nil, "store list -template {{").check(t, "a bad template", exitUsage, "", "unclosed action")
}

// TestWatch: a command with -watch runs again, also after an error, until it is interrupted.
func TestWatch(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	var b bytes.Buffer
	n := 0
	require.NoError(t, repeat(ctx, time.Millisecond, io.Discard, &b, func() error {
		if n++; n == 5 {
			interrupt()
		}
		if n == 2 {
			return errors.New("nobody answers")
		}
		return nil
	}))
	require.Equal(t, 5, n)
	require.Equal(t, "shardctl: nobody answers\n", b.String())
	shardctl(t, nil, "leave a -cluster c -watch 1s").check(t, "leave -watch", exitUsage, "", "not defined: -watch")
	shardctl(t, nil, "members -cluster c -watch -1s").check(t, "members -watch", exitUsage, "", "-watch is -1s: want more than 0")
}

func TestPaint(t *testing.T) {
	require.Equal(t, "shop is NOT healthy\n\x1b[31mwrong:\x1b[0m a\n\x1b[33mnote:\x1b[0m  b\n\x1b[31mWRONG\x1b[0m c\n\x1b[32mok\x1b[0m    d\n",
		painted("shop is NOT healthy\nwrong: a\nnote:  b\nWRONG c\nok    d\n"))
	require.Equal(t, "wrong: a\n", paint(io.Discard, "wrong: a\n"), "there is no terminal")
}

// TestMan: the manual page has all commands with their flags, and troff reads it without a warning.
func TestMan(t *testing.T) {
	o := shardctl(t, nil, "man")
	o.check(t, "man", exitOK, "\n.SS store repair [flags] TYPE [ID]\n", "")
	for _, name := range names() {
		switch name {
		case "store", "permissions", "completion", "man", "version", "help":
		default:
			require.Regexp(t, `(?m)^\.SS `+name+` `, o.stdout)
		}
	}
	require.Contains(t, o.stdout, "\n.B \\-watch time\n")
	for _, line := range regexp.MustCompile(`(?m)^[.'].*$`).FindAllString(o.stdout, -1) {
		require.Regexp(t, `^\.(TH|SH|SS|TP|B|nf|fi)( |$)`, line)
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not here, so the page is not read by it")
	}
	c := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww")
	c.Stdin = strings.NewReader(o.stdout)
	out, err := c.CombinedOutput()
	require.NoError(t, err)
	require.NotContains(t, string(out), "warning", fmt.Sprintf("%.2000s", out))
}
