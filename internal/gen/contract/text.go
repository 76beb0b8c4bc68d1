package contract

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// version is the number of the file format. Files of newer formats are refused.
const version = 1

const (
	head = "shardgen contract "
	note = "# Written by shardgen. Commit it. Change it with shardgen contract, not by hand.\n"
)

// Format writes a contract as the text of shard.lock: one entry on each line, sorted.
func Format(c *Contract) []byte {
	var lines []string
	add := func(retired bool, fields ...any) {
		line := strings.TrimSuffix(fmt.Sprintln(fields...), "\n")
		if retired {
			line += " " + retiredWord
		}
		lines = append(lines, line)
	}
	for _, k := range c.Kinds {
		formatKind(k, add)
	}
	for _, m := range c.Messages {
		switch {
		case m.Oneof:
			add(false, "type", m.Name, oneofWord)
		case m.Is != "":
			add(false, "type", m.Name, "is", m.Is)
		default:
			add(false, "type", m.Name)
		}
		for _, f := range m.Fields {
			add(f.Retired, "type", m.Name, m.fieldsAre(), f.Number, f.Name, f.Type)
		}
	}
	for _, e := range c.Enums {
		for _, v := range e.Values {
			add(v.Retired, "enum", e.Name, v.Number, v.Name)
		}
	}
	for _, e := range c.Errors {
		fields := []any{"error", e.Name}
		if e.Wire != e.Name {
			fields = append(fields, "called", e.Wire)
		}
		if e.Type != "" {
			fields = append(fields, "is", e.Type)
		}
		add(e.Retired, fields...)
	}
	sortLines(lines)
	return []byte(head + strconv.Itoa(version) + "\n" + note + strings.Join(append(lines, ""), "\n"))
}

const (
	retiredWord = "retired"
	oneofWord   = "oneof"
	indexWord   = "index"
)

func formatKind(k *Kind, add func(retired bool, fields ...any)) {
	add(k.Retired, "kind", k.Name)
	if k.Singleton {
		add(false, "kind", k.Name, "singleton")
	} else if k.Pool {
		add(false, "kind", k.Name, "pool")
		add(false, "kind", k.Name, "shards", k.Shards)
	} else {
		add(false, "kind", k.Name, "id", k.ID)
		add(false, "kind", k.Name, "shards", k.Shards)
		add(false, "kind", k.Name, "hash", k.Hash)
	}
	if k.Durable {
		add(false, "kind", k.Name, "durable")
	}
	if k.Version > 1 {
		add(false, "kind", k.Name, "version", k.Version)
	}
	if k.TTL > 0 {
		add(false, "kind", k.Name, "ttl", k.TTL)
	}
	for _, f := range k.State {
		fields := []any{"kind", k.Name, "state", f.Number, f.Name, f.Type}
		if f.Indexed && !f.Retired {
			fields = append(fields, indexWord)
		}
		add(f.Retired, fields...)
	}
	for _, f := range k.Events {
		add(f.Retired, "kind", k.Name, "event", f.Number, f.Name, f.Type)
	}
	for _, m := range k.Methods {
		fields := []any{"kind", k.Name, "method", m.Name}
		if m.Wire != m.Name {
			fields = append(fields, "called", m.Wire)
		}
		if m.Tell {
			fields = append(fields, "tell")
		}
		if m.Read {
			fields = append(fields, "read")
		}
		add(m.Retired, fields...)
		for _, f := range m.Args {
			add(f.Retired, "kind", k.Name, "method", m.Name, "arg", f.Number, f.Name, f.Type)
		}
		for _, f := range m.Results {
			add(f.Retired, "kind", k.Name, "method", m.Name, "result", f.Number, f.Name, f.Type)
		}
	}
}

func sortLines(lines []string) {
	split := make([][]string, len(lines))
	for i, line := range lines {
		split[i] = strings.Fields(line)
	}
	slices.SortFunc(split, func(a, b []string) int { return slices.CompareFunc(a, b, compareWords) })
	for i, words := range split {
		lines[i] = strings.Join(words, " ")
	}
}

// compareWords compares numbers by value. They have no leading zeros, so a shorter one is smaller.
func compareWords(a, b string) int {
	if isNumber(a) && isNumber(b) {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

func isNumber(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// Parse reads a contract. It accepts only what [Format] writes, so that an edit by hand or a wrong
// merge is noticed.
//
// Line ends may be those of Windows.
func Parse(content []byte) (*Contract, []Problem) {
	content = UnixLines(content)
	c, problems := read(content)
	if len(problems) > 0 {
		return nil, problems
	}
	if problems := twice(c); len(problems) > 0 {
		return nil, problems
	}
	want := strings.Split(string(Format(c)), "\n")
	got := strings.Split(string(content), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return nil, []Problem{{CodeEdited, i + 1, "not in the form that shardgen writes: edited by hand?", mend}}
		}
	}
	return c, nil
}

// UnixLines replaces Windows line ends, which a check-out may make, by Unix ones.
func UnixLines(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }

const mend = "restore it from version control, or run shardgen contract mend, which keeps the lines that it can read"

// read reads lines in any order. It returns no contract if the text has conflict marks or another
// format. A line with any other problem is skipped.
func read(content []byte) (*Contract, []Problem) {
	r := &reader{c: &Contract{}}
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "<<<<<<<") || strings.HasPrefix(line, ">>>>>>>") || strings.HasPrefix(line, "=======") {
			return nil, []Problem{{
				CodeConflict, i + 1, "a conflict marker: two branches changed the contract",
				"run shardgen contract mend: it keeps the lines of both sides and replaces duplicate numbers",
			}}
		}
	}
	number, isHead := strings.CutPrefix(lines[0], head)
	format, err := strconv.Atoi(number)
	switch {
	case !isHead || err != nil:
		return nil, []Problem{{CodeEdited, 1, "not a contract: want " + strconv.Quote(head+strconv.Itoa(version)), mend}}
	case format > version:
		return nil, []Problem{{
			CodeNewer, 1, fmt.Sprintf("written in format %d, but this shardgen reads formats up to %d", format, version),
			"use the shardgen that wrote it, or a newer one: go get -tool github.com/shardgen/shardgen/cmd/shardgen@latest",
		}}
	}
	for i, line := range lines[1:] {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !r.fact(i+2, strings.Fields(line)) {
			r.problems = append(r.problems, Problem{CodeEdited, i + 2, strconv.Quote(line) + ": not a line of a contract", mend})
		}
	}
	return r.c, r.problems
}
