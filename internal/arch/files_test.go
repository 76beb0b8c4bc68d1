package arch

import (
	"go/ast"
	"strconv"
	"testing"
)

// TestNoSleepInTests refuses time.Sleep as synchronisation in tests. Files that use
// testing/synctest, where time is virtual, or shardtest may sleep.
func TestNoSleepInTests(t *testing.T) {
	for _, f := range loadTree(t) {
		if !f.test {
			continue
		}
		for _, n := range sleeps(f.syntax) {
			t.Errorf("%s:%d: time.Sleep in a test (wait for what must happen)", f.path, f.line(n))
		}
	}
}

// sleeps returns the uses of time.Sleep in a file; none if the file uses testing/synctest or
// shardtest.
func sleeps(file *ast.File) []ast.Node {
	name := importName(file, "time")
	if name == "" || importName(file, "testing/synctest") != "" || importName(file, module+"/shardtest") != "" {
		return nil
	}
	var found []ast.Node
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" && isName(s.X, name) {
			found = append(found, s)
		}
		return true
	})
	return found
}

// importName returns the name under which a file imports a package of the standard library, or "".
func importName(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if got, err := strconv.Unquote(spec.Path.Value); err != nil || got != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return packageName(path)
	}
	return ""
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
