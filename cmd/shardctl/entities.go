package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/shardgen/shardgen/runtime/admin"
)

// A jsonListed is one line of the output of entities -json. Fields are added, never changed.
type jsonListed struct {
	ID     string `json:"id"`
	Base64 bool   `json:"base64,omitempty"` // the id is not UTF-8, and ID has it in base64
}

func entities(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	out := bufio.NewWriter(w)
	err := printIDs(ctx, c, o, out)
	return orErr(out.Flush(), err)
}

// printIDs prints up to -limit ids, and asks for one more to know whether there are more.
func printIDs(ctx context.Context, c *admin.Client, o *options, w io.Writer) error {
	l, n, last := o.list, 0, ""
	for _, text := range []*string{&l.Prefix, &l.After} {
		if strings.HasPrefix(*text, `"`) {
			if plain, err := strconv.Unquote(*text); err == nil {
				*text = plain
			}
		}
	}
	if l.Limit > 0 {
		l.Limit++
	}
	for id, err := range c.Entities(ctx, o.kind, l) {
		switch {
		case err != nil && n > 0:
			return fmt.Errorf("%w (to go on: -after %s)", err, argumentOf(last))
		case err != nil:
			return err
		case o.list.Limit > 0 && n == o.list.Limit:
			if !o.json {
				where := ""
				if l.Where != "" {
					where = " -where " + argumentOf(l.Where)
				}
				_, err = fmt.Fprintf(w, "there are more (shardctl entities %s%s -after %s, or a higher -limit)\n", o.kind, where, argumentOf(last))
			}
			return err
		}
		n, last = n+1, id
		if o.json {
			var line jsonListed
			line.ID, line.Base64 = textOf(id)
			err = printJSONLine(w, line)
		} else {
			_, err = fmt.Fprintln(w, shown(id))
		}
		if err != nil {
			return err
		}
	}
	if n == 0 && !o.json {
		_, err := fmt.Fprintf(w, "%s has no such entities\n", o.kind)
		return err
	}
	return nil
}

// shown returns an id for people, quoted if it has other bytes than printable text. Flags accept the
// quoted form.
func shown(id string) string {
	if !strings.HasPrefix(id, `"`) && utf8.ValidString(id) && !strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return id
	}
	return strconv.Quote(id)
}

// argumentOf returns an id as an argument in a shell.
func argumentOf(id string) string {
	text := shown(id)
	if strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@", r)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}
