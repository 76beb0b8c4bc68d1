package gen

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/model"
)

// editsPaths matches the archives of TestEdits: a base package, edits of it, and the expected
// transcripts.
const editsPaths = "testdata/edits*.txtar"

// TestEdits makes each edit in a copy of the base package that has the base's contract. It runs the
// commands that diagnostics advise until there are no diagnostics. The transcript has the
// diagnostics, and what the final contract breaks.
func TestEdits(t *testing.T) {
	paths, err := filepath.Glob(editsPaths)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", editsPaths, paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { editAll(t, path) })
	}
}

func editAll(t *testing.T, editsPath string) {
	archive, err := txtar.ParseFile(editsPath)
	if err != nil {
		t.Fatal(err)
	}
	base := string(archive.Files[0].Data)
	dir := module(t, "example.com/edits", map[string]string{
		"base/x.go": base, "sub/sub.go": "package sub\n\ntype Sub struct{ A int }\n",
	})
	clean(t, options(dir, "./base"))
	lock, code := read(t, dir, "base/"+contract.FileName), read(t, dir, "base/"+model.OutputName)

	var next []txtar.File
	folders := map[string]string{}        // by the edit
	said := map[string]*strings.Builder{} // by its folder
	for _, f := range archive.Files {
		name, isEdit := strings.CutPrefix(f.Name, "edit ")
		if f.Name == "base" || isEdit {
			next = append(next, f)
		}
		if !isEdit {
			continue
		}
		folders[name] = fmt.Sprintf("e%02d", len(folders))
		folder := folders[name]
		said[folder] = &strings.Builder{}
		write(t, dir, folder+"/x.go", edited(t, base, string(f.Data)))
		write(t, dir, folder+"/"+contract.FileName, lock)
		write(t, dir, folder+"/"+model.OutputName, code)
	}
	for range 4 { // advice may uncover more
		if follow(t, dir, said) == 0 {
			break
		}
	}
	for i := 0; i < len(next); i++ {
		name, isEdit := strings.CutPrefix(next[i].Name, "edit ")
		if !isEdit {
			continue
		}
		out := said[folders[name]]
		breaches, err := Breaking(filepath.Join(dir, "base"), filepath.Join(dir, folders[name]), false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, b := range breaches {
			kind := "breaks"
			if b.Compatible {
				kind = "note"
			}
			fmt.Fprintf(out, "%s: %s\n", kind, b.Break)
		}
		if out.Len() == 0 {
			out.WriteString("nothing\n")
		}
		next = append(next[:i+1], append([]txtar.File{{Name: "want " + name, Data: []byte(out.String())}}, next[i+1:]...)...)
	}
	got := string(txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: next}))
	if want := string(txtar.Format(archive)); got == want {
		return
	} else if !*update {
		t.Errorf("%s: %s (go test ./internal/gen -run Edits -update?)", editsPath, difference([]byte(got), []byte(want)))
	} else if err := os.WriteFile(editsPath, []byte(got), 0o644); err != nil {
		t.Fatal(err)
	}
}

// edited applies an edit to the base: pairs of a text in the base and its replacement.
func edited(t *testing.T, base, edit string) string {
	t.Helper()
	for pair := range strings.SplitSeq(strings.TrimSuffix(edit, "==\n"), "==\n") {
		from, to, ok := strings.Cut(strings.TrimSuffix(pair, "\n"), "\n=>\n")
		if !ok {
			from, ok = strings.CutSuffix(strings.TrimSuffix(pair, "\n"), "\n=>")
		}
		if !ok || !strings.Contains(base, from) {
			t.Fatalf("an edit replaces %q, which the base has not", from)
		}
		base = strings.ReplaceAll(base, from, to)
	}
	return base
}

// advice matches a contract command that a diagnostic advises.
var advice = regexp.MustCompile(`run go tool shardgen contract -dir (\S+) (?:(mv|retype) (\S+) ([^\s;,)]+)|(rm|reset) ([^\s;,)]+))`)

// follow runs the generator. For each diagnostic it runs the contract command that the remedy
// advises, or takes the edit back if there is none. It returns the number of diagnostics that it
// followed.
func follow(t *testing.T, dir string, said map[string]*strings.Builder) (followed int) {
	t.Helper()
	for _, d := range run(t, options(dir, "./...")).Diagnostics {
		folder := filepath.ToSlash(filepath.Dir(d.Pos.Filename))
		out := said[folder]
		if out == nil {
			t.Errorf("about another folder: %v", d)
			continue
		}
		out.WriteString(strings.ReplaceAll(d.String(), folder, "x") + "\n")
		m := advice.FindStringSubmatch(d.Remedy)
		if m == nil {
			fmt.Fprintf(out, "follows no command; the edit is taken back\n")
			write(t, dir, folder+"/x.go", read(t, dir, "base/x.go"))
			followed++
			continue
		}
		command, path, to := m[2]+m[5], m[3]+m[6], strings.Trim(m[4], "'")
		fmt.Fprintf(out, "follows: %s\n", strings.TrimSpace(command+" "+path+" "+to))
		err := Edit(filepath.Join(dir, m[1]), func(c *contract.Contract) error {
			switch command {
			case "mv":
				return contract.Move(c, path, to)
			case "rm":
				return contract.Retire(c, path)
			case "retype":
				return contract.Retype(c, path, to)
			}
			return contract.Reset(c, path, false)
		})
		if err != nil {
			t.Errorf("%s: the advice of %v does not work: %v", folder, d, err)
		}
		followed++
	}
	return followed
}
