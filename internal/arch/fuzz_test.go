package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoderName matches the names of functions that decode bytes.
var decoderName = regexp.MustCompile(`^([Pp]arse|[Dd]ecode|[Oo]pen|[Rr]ead|[Uu]nescape|[Uu]nderstand|[Uu]nseal|[Nn]ext|[Tt]ake)([A-Z]|$)|Ack$|idOf$`)

// fuzzedElsewhere has the decoders that no fuzzer in their own folder reaches, each with the
// reason.
var fuzzedElsewhere = map[string]string{
	"runtime/membership.Decode":            "it is that of internal/core/membership/message",
	"runtime/codegen.ReadBack":             "it reads no bytes",
	"runtime/codegen.ParseID":              "FuzzUnescapeID: the rest is strconv",
	"runtime/codegen.ParseUintID":          "FuzzUnescapeID: the rest is strconv",
	"runtime/codegen.ParseStringID":        "it converts its argument",
	"runtime/codegen.ParseTextID":          "the text is the user's to read",
	"runtime/placement.ParseStrategy":      "it compares names",
	"internal/driver/node.DecodeState":     "the generated decoder, FuzzDecoder",
	"internal/core/durable.TakeHead":       "it writes a head",
	"internal/driver/durablehost.NextTerm": "it writes a term",
	"store/memory.read":                    "it reads this process's memory",
	"store/nats.Open":                      "its text is the configuration's",
	"transport/nats.parseURLs":             "its text is the configuration's",
	"transport/nats.parseURL":              "its text is the configuration's",
}

// TestDecodersHaveFuzzers checks that each function that decodes bytes of another process is called
// by a fuzzer of its package, directly or through other functions.
func TestDecodersHaveFuzzers(t *testing.T) {
	files := map[string][]*ast.File{}
	for _, f := range loadTree(t) {
		files[f.dir] = append(files[f.dir], f.syntax)
	}
	fuzzed := map[string]map[string]bool{} // names that fuzzers reach, by folder
	for dir, in := range files {
		fuzzed[dir] = reach(in)
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
	if decoders < 50 {
		t.Errorf("%d decoders were found, want 50 and more: the test tests nothing", decoders)
	}
}

// hearsStrangers reports whether code in dir runs in members and clients. Such code may get bytes
// of another process.
func hearsStrangers(dir string) bool {
	return slices.ContainsFunc([]string{"internal", "runtime", "store", "transport"}, func(top string) bool { return under(dir, top) }) &&
		!slices.ContainsFunc([]string{"internal/arch", "internal/gen", "internal/sim", "internal/e2e", "internal/test/fixture", "internal/wire/gen"},
			func(tool string) bool { return under(dir, tool) })
}

// decodes reports whether a function or method has a decoder's name and signature: a parameter with
// bytes, a word of a subject, a record or a message, and an error or a bool as the last result.
func decodes(fn *ast.FuncDecl) bool {
	if !decoderName.MatchString(fn.Name.Name) || fn.Type.Results == nil {
		return false
	}
	last := fn.Type.Results.List[len(fn.Type.Results.List)-1]
	if id, ok := last.Type.(*ast.Ident); !ok || id.Name != "error" && id.Name != "bool" {
		return false
	}
	return slices.ContainsFunc(fn.Type.Params.List, func(p *ast.Field) bool { return encoded(p.Type) })
}

// encoded reports whether a parameter's type may hold bytes of another process.
func encoded(of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.ArrayType:
		return of.Len == nil && (encoded(of.Elt) || isNamed(of.Elt, "byte"))
	case *ast.StarExpr:
		return encoded(of.X)
	case *ast.SelectorExpr: // messages of the broker, and what the store returns
		return slices.Contains([]string{"store.Record", "store.Head", "nats.Msg", "transport.Request"}, fmt.Sprintf("%s.%s", of.X, of.Sel.Name))
	}
	return isNamed(of, "string") || isNamed(of, "Position")
}

func isNamed(of ast.Expr, name string) bool {
	id, ok := of.(*ast.Ident)
	return ok && id.Name == name
}

// reach returns the names that the fuzzers in files use. It follows functions and methods of these
// files and adds the names that they use.
func reach(files []*ast.File) map[string]bool {
	bodies, seen := map[string][]*ast.FuncDecl{}, map[string]bool{}
	var next []string
	for _, file := range files {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				bodies[fn.Name.Name] = append(bodies[fn.Name.Name], fn)
				if strings.HasPrefix(fn.Name.Name, "Fuzz") {
					next = append(next, fn.Name.Name)
				}
			}
		}
	}
	for len(next) > 0 {
		name := next[0]
		next = next[1:]
		for _, body := range bodies[name] {
			ast.Inspect(body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
					seen[id.Name] = true
					next = append(next, id.Name)
				}
				return true
			})
		}
	}
	return seen
}
