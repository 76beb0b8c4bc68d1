package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// mutantsOf returns a package's mutants in a fixed order. It skips tests, .pb.go files, check.go,
// and functions named Check, String or Error.
func mutantsOf(dir string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") || filepath.Base(name) == "check.go" {
			continue // check.go too, because a check of an invariant is a test itself
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		c := collector{dir: dir, file: name, text: text, fset: fset}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "Check" && f.Name.Name != "String" && f.Name.Name != "Error" {
				ast.Inspect(f.Body, c.visit)
			}
		}
		all = append(all, c.found...)
	}
	return all, nil
}

type collector struct {
	dir, file string
	text      []byte
	fset      *token.FileSet
	found     []mutant
}

// others maps an operator to the operator that is most likely written in its place by mistake.
var others = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

func (c *collector) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		if c.isTalk(n) {
			return false
		}
	case *ast.BinaryExpr:
		if other, ok := others[n.Op]; ok {
			c.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String())
		}
	case *ast.IfStmt:
		cond := c.source(n.Cond)
		if strings.HasPrefix(cond, "invariant.") {
			return false
		}
		c.add(n.Cond.Pos(), n.Cond.End(), "false && ("+cond+")")
		c.add(n.Cond.Pos(), n.Cond.End(), "true || ("+cond+")")
	case *ast.BlockStmt:
		c.statements(n.List)
	case *ast.CaseClause:
		c.statements(n.Body)
	}
	return true
}

func (c *collector) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && c.isTalk(call) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IncDecStmt, *ast.BranchStmt:
		default:
			continue
		}
		c.add(s.Pos(), s.End(), "")
	}
}

// talk matches calls that are not mutated: formatting, logging, checks of invariants, and locks.
// Without a lock a test hangs or has a data race.
var talk = regexp.MustCompile(`^(fmt\.|errors\.|invariant\.|.*\.(log|trace|Info|Warn|Debug|Error|R?Lock|R?Unlock)\()`)

func (c *collector) isTalk(n *ast.CallExpr) bool {
	return talk.MatchString(c.source(n))
}

func (c *collector) add(from, to token.Pos, with string) {
	start, end := c.fset.Position(from), c.fset.Position(to).Offset
	line := bytes.LastIndexByte(c.text[:start.Offset], '\n') + 1
	rest, _, _ := bytes.Cut(c.text[end:], []byte("\n"))
	c.found = append(c.found, mutant{
		dir: c.dir, file: c.file, line: start.Line, start: start.Offset, end: end, with: with,
		was: string(c.text[line:end]) + string(rest),
		now: string(c.text[line:start.Offset]) + with + string(rest),
	})
}

func (c *collector) source(n ast.Node) string {
	return string(c.text[c.fset.Position(n.Pos()).Offset:c.fset.Position(n.End()).Offset])
}
