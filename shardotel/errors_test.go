package shardotel

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	shard "github.com/shardgen/shardgen/runtime"
)

// noCall are the errors of the runtime that are of no call: of hosting, of an ended node, of followers
// and of Epoch.
var noCall = []string{"ErrEscalated", "ErrEventsGone", "ErrFollowed", "ErrNoEpoch", "ErrNoReminders", "ErrNotPublished", "ErrNotSingleton", "ErrPosition", "ErrStarted"}

// TestEveryErrorHasItsType: each error of the runtime that a call may have has an error.type of its own,
// so that none counts as the entity's.
func TestEveryErrorHasItsType(t *testing.T) {
	declared := errorsIn(t, filepath.Join("..", "runtime", "*.go"))
	named := make(map[string]bool)
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			named[s.Sel.Name] = true
		}
		return true
	})
	for _, name := range declared {
		if !named[name] && !slices.Contains(noCall, name) {
			t.Errorf("shard.%s has no error.type (add it to causes, or to noCall)", name)
		}
	}
	for _, name := range noCall {
		if !slices.Contains(declared, name) || named[name] {
			t.Errorf("noCall has %s, which is not declared or has an error.type", name)
		}
	}
}

// errorsIn returns the names of the error variables that files declare.
func errorsIn(t *testing.T, pattern string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						names = append(names, id.Name)
					}
				}
			}
		}
	}
	return names
}

// TestTypeOfDroppedTurn: a call whose turn was dropped, as by shard.TryAgain, has not failed by an error
// of the entity.
func TestTypeOfDroppedTurn(t *testing.T) {
	dropped := &shard.CallError{Kind: "User", ID: "ann", Method: "Bid", Outcome: shard.NotExecuted, Err: errors.New("shard.TryAgain: away")}
	if got := typeOf(fmt.Errorf("bid: %w", dropped)); got != otherError {
		t.Errorf("got %q, want %q", got, otherError)
	}
	if got := typeOf(&shard.EntityError{Kind: "User", Text: "sold out"}); got != entityError {
		t.Errorf("got %q, want %q", got, entityError)
	}
}
