package arch

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoderName matches names of functions that read encoded bytes.
var decoderName = regexp.MustCompile(`^(Parse|Decode|Open|Read|Unescape|Next)([A-Z]|$)`)

// fuzzedElsewhere are decoders without a fuzzer in their own folder, and the reason.
var fuzzedElsewhere = map[string]string{
	"runtime/membership.Decode": "it is that of internal/membership/message",
}

// TestDecodersHaveFuzzers: a function that reads bytes which may come from another process is called
// by a fuzzer of its package, itself or by a helper.
func TestDecodersHaveFuzzers(t *testing.T) {
	fuzzed := map[string]map[string]bool{} // names that fuzzers reach, by folder
	for _, f := range loadTree(t) {
		if f.test {
			reach(f.syntax, func(name string) {
				if fuzzed[f.dir] == nil {
					fuzzed[f.dir] = map[string]bool{}
				}
				fuzzed[f.dir][name] = true
			})
		}
	}
	decoders := 0
	for _, f := range loadTree(t) {
		if f.test || f.generated || !hearsStrangers(f.dir) {
			continue
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !decodes(fn) {
				continue
			}
			decoders++
			name := fn.Name.Name
			if !fuzzed[f.dir][name] && fuzzedElsewhere[f.dir+"."+name] == "" {
				t.Errorf("%s: no fuzzer reaches %s, which reads bytes that may come from another process", f.path, name)
			}
		}
	}
	if decoders < 15 {
		t.Errorf("%d decoders were found, want 15 and more: the test tests nothing", decoders)
	}
}

// hearsStrangers reports whether a folder's code runs in members and clients.
func hearsStrangers(dir string) bool {
	return slices.ContainsFunc([]string{"internal", "runtime", "transport"}, func(top string) bool { return under(dir, top) }) &&
		!slices.ContainsFunc([]string{"internal/arch", "internal/gen", "internal/sim", "internal/e2e", "internal/fixture", "internal/wire/gen"},
			func(tool string) bool { return under(dir, tool) })
}

// decodes reports whether a function reads bytes, or a word of a subject, and may refuse them.
func decodes(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || !decoderName.MatchString(fn.Name.Name) || fn.Type.Results == nil {
		return false
	}
	last := fn.Type.Results.List[len(fn.Type.Results.List)-1]
	if id, ok := last.Type.(*ast.Ident); !ok || id.Name != "error" {
		return false
	}
	return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool {
		switch of := p.Type.(type) {
		case *ast.ArrayType:
			id, ok := of.Elt.(*ast.Ident)
			return ok && of.Len == nil && id.Name == "byte"
		case *ast.Ident:
			return of.Name == "string" && strings.HasPrefix(fn.Name.Name, "Unescape")
		}
		return false
	})
}

// reach calls use for each name that the fuzzers of a file use, and the functions of the file that
// they call.
func reach(file *ast.File, use func(name string)) {
	bodies, seen := map[string]*ast.FuncDecl{}, map[string]bool{}
	var next []string
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
			bodies[fn.Name.Name] = fn
			if strings.HasPrefix(fn.Name.Name, "Fuzz") {
				next = append(next, fn.Name.Name)
			}
		}
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		ast.Inspect(bodies[name], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
				seen[id.Name] = true
				use(id.Name)
				if bodies[id.Name] != nil && id.Name != name {
					next = append(next, id.Name)
				}
			}
			return true
		})
	}
}
