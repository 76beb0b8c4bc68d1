package shard_test

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

	"github.com/stretchr/testify/require"

	shard "github.com/shardgen/shardgen/runtime"
)

// noCall are the errors that no call returns, such as those of hosting, of an ended node, of
// followers and of Epoch.
var noCall = []string{"ErrEscalated", "ErrEventsGone", "ErrFollowed", "ErrNoEpoch", "ErrNoReminders", "ErrNotPublished", "ErrNotSingleton", "ErrPosition", "ErrStarted"}

// TestEveryErrorHasItsCause: each declared error that a call may return has its own cause, so that
// none counts as an error of the entity.
func TestEveryErrorHasItsCause(t *testing.T) {
	var declared, caused []string
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for _, id := range spec.Names {
					switch {
					case strings.HasPrefix(id.Name, "Err"):
						declared = append(declared, id.Name)
					case id.Name == "causes":
						ast.Inspect(spec, func(n ast.Node) bool {
							if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "Err") {
								caused = append(caused, id.Name)
							}
							return true
						})
					}
				}
			}
		}
	}
	require.NotEmpty(t, caused)
	slices.Sort(declared)
	want := append(slices.Clone(noCall), caused...)
	slices.Sort(want)
	require.Equal(t, want, declared, "add new ones to causes, or to noCall")
}

// TestCauseOfDroppedTurn: a call whose turn was dropped, as by shard.TryAgain, has not failed by an error
// of the entity.
func TestCauseOfDroppedTurn(t *testing.T) {
	dropped := &shard.CallError{Kind: "User", ID: "ann", Method: "Bid", Outcome: shard.NotExecuted, Err: errors.New("shard.TryAgain: away")}
	require.Equal(t, "_OTHER", shard.CauseOf(fmt.Errorf("bid: %w", dropped)))
	require.Equal(t, "entity", shard.CauseOf(&shard.EntityError{Kind: "User", Text: "sold out"}))
}
