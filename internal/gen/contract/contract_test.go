package contract

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// transcript runs f on each archive of a folder, and compares the result with the archive's file
// want.
func transcript(t *testing.T, dir string, f func(part func(string) string) string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts in %s: %v", dir, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			index := func(name string) int {
				return slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
			}
			got := f(func(name string) string {
				if i := index(name); i >= 0 {
					return string(archive.Files[i].Data)
				}
				return ""
			})
			i := index("want")
			if string(archive.Files[i].Data) == got {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, archive.Files[i].Data)
			}
			archive.Files[i].Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

const header = head + "1\n" + note

// body returns a contract's text without its header.
func body(c *Contract) string { return strings.TrimPrefix(string(Format(c)), header) }

func understood(t *testing.T, facts string) *Contract {
	t.Helper()
	c, problems := read([]byte(header + facts))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

func printed(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "%d: %s: %s (%s)\n", p.Line, p.Code, p.Message, p.Remedy)
	}
	return b.String()
}

// TestAdopt adopts, in each archive, the contract in the file now into the contract in the file
// old. The numbers in the file now are ignored.
func TestAdopt(t *testing.T) {
	transcript(t, "adopt", func(part func(string) string) string {
		old, problems := Parse(Format(understood(t, part("old"))))
		if len(problems) > 0 {
			return printed(problems)
		}
		now := understood(t, part("now"))
		for _, l := range now.lists() {
			for _, f := range *l.fields {
				f.Unnamed = strings.HasPrefix(f.Name, "arg") || strings.HasPrefix(f.Name, "result")
			}
		}
		next, problems := Adopt(old, now)
		if len(problems) > 0 {
			return printed(problems)
		}
		if again, problems := Parse(Format(next)); len(problems) > 0 || body(again) != body(next) {
			t.Errorf("what was written is not understood: %v", problems)
		}
		return body(next)
	})
}

// TestEdit runs each archive's commands, one a line, on its contract.
func TestEdit(t *testing.T) {
	transcript(t, "edit", func(part func(string) string) string {
		content := []byte(part("lock"))
		if !bytes.HasPrefix(content, []byte(head)) {
			content = append([]byte(header), content...)
		}
		var out strings.Builder
		for line := range strings.Lines(part("commands")) {
			words := strings.Fields(line)
			if words[0] == "parse" {
				_, problems := Parse(content)
				out.WriteString(printed(problems))
				continue
			}
			next, told, err := command(t, content, part, words)
			for _, l := range told {
				out.WriteString(l + "\n")
			}
			if err != nil {
				out.WriteString("refused: " + err.Error() + "\n")
				continue
			}
			content = Format(next)
		}
		return out.String() + strings.TrimPrefix(string(content), header)
	})
}

func command(t *testing.T, content []byte, part func(string) string, words []string) (*Contract, []string, error) {
	t.Helper()
	if words[0] == "mend" {
		var released *Contract
		if len(words) > 1 {
			released = understood(t, part(words[1]))
		}
		return Mend(content, released)
	}
	c, problems := Parse(content)
	if len(problems) > 0 {
		t.Fatal(printed(problems))
	}
	switch words[0] {
	case "mv":
		return c, nil, Move(c, words[1], words[2])
	case "rm":
		err := Retire(c, words[1])
		if told := Kept(c, words[1]); told != "" {
			return c, []string{told}, err
		}
		return c, nil, err
	case "retype":
		return c, nil, Retype(c, words[1], strings.Join(words[2:], " "))
	case "reset":
		return c, nil, Reset(c, words[len(words)-1], words[1] == "-unstored")
	case "breaking":
		var told []string
		for _, b := range Breaking(understood(t, part(words[1])), c) {
			told = append(told, b.String())
		}
		return c, told, nil
	case "proto":
		file, err := Descriptor(c, "shop")
		if err != nil {
			return c, nil, err
		}
		text, err := Text(file)
		return c, strings.Split(strings.TrimSuffix(text, "\n"), "\n"), err
	}
	t.Fatalf("unknown command %v", words)
	return nil, nil, nil
}

// TestParseRefuses checks that Parse refuses text that is not exactly what Format writes.
func TestParseRefuses(t *testing.T) {
	good := header + "kind A\nkind A hash xxh64\nkind A id string\nkind A shards 256\n"
	if _, problems := Parse([]byte(good)); len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tt := range map[string]struct{ content, code string }{
		"empty":       {"", CodeEdited},
		"other file":  {"package main\n", CodeEdited},
		"newer":       {strings.Replace(good, "contract 1", "contract 2", 1), CodeNewer},
		"no newline":  {strings.TrimSuffix(good, "\n"), CodeEdited},
		"unsorted":    {header + "kind A\nkind A id string\nkind A hash xxh64\nkind A shards 256\n", CodeEdited},
		"unknown":     {good + "what is this\n", CodeEdited},
		"bad number":  {good + "type T\ntype T field 0 A string\n", CodeEdited},
		"huge number": {good + "type T\ntype T field 536870912 A string\n", CodeEdited},
		"conflict":    {header + "<<<<<<< ours\nkind A\n=======\n>>>>>>> theirs\n", CodeConflict},
		"twice":       {good + "type T\ntype T field 1 A string\ntype T field 1 B string\n", CodeTwice},
	} {
		_, problems := Parse([]byte(tt.content))
		if len(problems) != 1 || problems[0].Code != tt.code || problems[0].Line < 1 || problems[0].Remedy == "" {
			t.Errorf("%s: got %+v, want one %s with a line and a remedy", name, problems, tt.code)
		}
	}
}

// TestBreakingTTL checks that a new or shorter ttl is reported, because entities then expire that
// callers still expect.
func TestBreakingTTL(t *testing.T) {
	parse := func(ttl string) *Contract {
		t.Helper()
		c, problems := Parse([]byte(header + "kind A\nkind A durable\nkind A hash xxh64\nkind A id string\nkind A shards 64\n" + ttl))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return c
	}
	never, day, hour := parse(""), parse("kind A ttl 1440\n"), parse("kind A ttl 60\n")
	for _, tt := range []struct {
		old, now *Contract
		want     string
	}{
		{never, never, ""},
		{never, day, "entities expire after 1d, formerly never"},
		{day, hour, "entities expire after 1h, formerly after 1d"},
		{hour, day, ""},
		{hour, never, ""},
	} {
		got := ""
		for _, b := range Breaking(tt.old, tt.now) {
			got += b.What
		}
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// TestDurableSingleton checks that the contract records whether a singleton is durable, and that a
// change of it is refused.
func TestDurableSingleton(t *testing.T) {
	volatile, problems := Parse([]byte(header + "kind A\nkind A singleton\n"))
	durable, more := Parse([]byte(header + "kind A\nkind A durable\nkind A singleton\n"))
	if len(problems)+len(more) > 0 {
		t.Fatal(problems, more)
	}
	for _, tt := range []struct {
		old, now *Contract
		want     string
	}{
		{durable, durable, ""},
		{volatile, durable, "form was singleton, is durable singleton"},
		{durable, volatile, "form was durable singleton, is singleton"},
	} {
		got := ""
		for _, b := range Breaking(tt.old, tt.now) {
			got += b.What
		}
		if got != tt.want {
			t.Errorf("breaking: got %q, want %q", got, tt.want)
		}
		if _, refused := Adopt(tt.old, tt.now); (len(refused) > 0) != (tt.want != "") {
			t.Errorf("%q: refused with %+v", tt.want, refused)
		}
	}
	if got := string(Format(durable)); !strings.Contains(got, "kind A durable\n") || !strings.Contains(got, "kind A singleton\n") {
		t.Errorf("written as %s", got)
	}
}

// TestPool checks that changing an entity to a pool, or back, is refused, and changing a pool's
// shards, too.
func TestPool(t *testing.T) {
	entity, problems := Parse([]byte(header + "kind A\nkind A hash xxh64\nkind A id string\nkind A shards 64\n"))
	pool, more := Parse([]byte(header + "kind A\nkind A pool\nkind A shards 64\n"))
	large, last := Parse([]byte(header + "kind A\nkind A pool\nkind A shards 128\n"))
	if len(problems)+len(more)+len(last) > 0 {
		t.Fatal(problems, more, last)
	}
	for _, tt := range []struct {
		old, now *Contract
		want     string
	}{
		{pool, pool, ""},
		{entity, pool, "form was entity, is pool"},
		{pool, entity, "form was pool, is entity"},
		{pool, large, "shards was 64, is 128"},
	} {
		got := ""
		for _, b := range Breaking(tt.old, tt.now) {
			got += b.What
		}
		if got != tt.want {
			t.Errorf("breaking: got %q, want %q", got, tt.want)
		}
		if _, refused := Adopt(tt.old, tt.now); (len(refused) > 0) != (tt.want != "") {
			t.Errorf("%q: refused with %+v", tt.want, refused)
		}
	}
}

// TestStateVersion checks that the version of a state cannot decrease, and that a change of it is
// reported as breaking.
func TestStateVersion(t *testing.T) {
	const kind = "kind A\nkind A durable\nkind A hash xxh64\nkind A id string\nkind A shards 64\n"
	first, problems := Parse([]byte(header + kind))
	second, more := Parse([]byte(header + kind + "kind A version 2\n"))
	if len(problems)+len(more) > 0 {
		t.Fatal(problems, more)
	}
	for _, tt := range []struct {
		old, now *Contract
		want     string
	}{
		{first, first, ""},
		{first, second, "the version of its state was 1, is 2"},
		{second, first, "the version of its state was 2, is 1"},
	} {
		got := ""
		for _, b := range Breaking(tt.old, tt.now) {
			got += b.What
		}
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if got := string(Format(second)); got != header+kind+"kind A version 2\n" {
		t.Errorf("it is written back as %q", got)
	}
}

// TestIndexes checks that indexes are kept, may be added, and are missed by older callers if removed.
func TestIndexes(t *testing.T) {
	const kind = "kind A\nkind A durable\nkind A hash xxh64\nkind A id string\nkind A shards 64\nkind A state 1 B string"
	without, problems := Parse([]byte(header + kind + "\n"))
	with, more := Parse([]byte(header + kind + " index\n"))
	if len(problems)+len(more) > 0 {
		t.Fatal(problems, more)
	}
	if got := body(with); got != kind+" index\n" {
		t.Errorf("it is written back as %q", got)
	}
	for _, tt := range []struct {
		old, now *Contract
		want     string
	}{
		{without, with, ""},
		{with, with, ""},
		{with, without, "has no index any more"},
	} {
		if next, problems := Adopt(tt.old, tt.now); len(problems) > 0 || body(next) != body(tt.now) {
			t.Errorf("adopted %q, %v, want %q", body(next), problems, body(tt.now))
		}
		got := ""
		for _, b := range Breaking(tt.old, tt.now) {
			got += b.What
		}
		if got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	if _, problems := Parse([]byte(header + kind + " indexed\n")); len(problems) == 0 {
		t.Error("another word passes for index")
	}
}

func TestCompatible(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"int32", "int64", true},
		{"uint8", "uint64", true},
		{"int32", "uint32", false},
		{"string", "*string", true},
		{"Line", "*Line", true},
		{"[]int8", "[]int64", true},
		{"[]string", "*[]string", false},
		{"[]Line", "[]*Line", false},
		{"*string", "**string", false},
		{"Point8", "Point16", false},
		{"string", "text:T", false},
		{"text:A", "text:B", false},
		{"text:A", "*text:A", true},
		{"map[string]int32", "map[string]int64", false},
	} {
		if got := compatible(tt.a, tt.b); got != tt.want || compatible(tt.b, tt.a) != tt.want {
			t.Errorf("compatible(%s, %s) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

// FuzzParse checks that Parse never panics, and that a contract that it accepts is written back
// unchanged.
func FuzzParse(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(header + "error ErrA called ErrB\nkind A\nkind A hash xxh64\nkind A id string\nkind A method Do called Was tell\nkind A method Do arg 1 n map[string][]int64\nkind A shards 256\ntype T\ntype T field 2 B [3]T retired\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, problems := Parse(content)
		if len(problems) == 0 && string(Format(c)) != string(content) {
			t.Errorf("%q is written back as %q", content, Format(c))
		}
		if len(problems) == 0 {
			if file, err := Descriptor(c, "p"); err == nil {
				_, _ = Text(file)
			}
		}
		_, _, _ = Mend(content, nil)
	})
}
