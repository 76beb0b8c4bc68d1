package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A mutant is one change of one file.
type mutant struct {
	dir, file  string
	line       int
	start, end int // the bytes that are replaced
	with       string
	was, now   string // the lines, for people
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s → %s", m.file, m.line, short(m.was), short(m.now))
}

// short is the beginning of a change's text, on one line.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 90 {
		return string(r[:90]) + "…"
	}
	if s == "" {
		return "nothing"
	}
	return s
}

// mutantsOf are all mutants of a package's files, in order.
func mutantsOf(dir string) (all []mutant, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") || filepath.Base(name) == "check.go" {
			continue // a check of an invariant is a test itself
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
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && f.Name.Name != "String" && f.Name.Name != "Error" {
				ast.Inspect(f.Body, c.visit)
			}
		}
		all = append(all, c.found...)
	}
	return all, nil
}

// A collector gathers the mutants of a file.
type collector struct {
	dir, file string
	text      []byte
	fset      *token.FileSet
	found     []mutant
}

// others are the operators that an operator is mistaken for most easily.
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

// statements has single statements left out.
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

// talk matches calls that only word something or check an invariant, and those of locks,
// without which a test hangs or the race detector reports it.
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

// source is the text of a node.
func (c *collector) source(n ast.Node) string {
	return string(c.text[c.fset.Position(n.Pos()).Offset:c.fset.Position(n.End()).Offset])
}

// An outcome is the fate of a mutant.
type outcome string

const (
	invalid  outcome = "invalid"
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
)

// A verdict is an outcome, and the test that noticed.
type verdict struct {
	outcome outcome
	by      string
}

// try runs the suites with the mutant until one fails.
func (m mutant) try(all []suite, limit time.Duration) (verdict, error) {
	overlay, clean, err := m.overlay()
	if err != nil {
		return verdict{}, err
	}
	defer clean()
	if _, err := goTool(limit, "build", "-tags", "shardgen_invariants", "-overlay", overlay, "./"+m.dir); err != nil {
		return verdict{outcome: invalid}, nil
	}
	for _, s := range all {
		args := []string{"test", "-short", "-tags", "shardgen_invariants", "-overlay", overlay, "-timeout", limit.String()}
		if s.run != "" {
			args = append(args, "-run", s.run)
		}
		pkg := s.pkg
		if pkg == "." {
			pkg = "./" + m.dir
		}
		out, err := goTool(limit+time.Minute, append(args, pkg)...)
		if err != nil {
			return verdict{killed, pkg + " " + firstFailure(out)}, nil
		}
	}
	return verdict{survived, "nobody"}, nil
}

// overlay writes the mutated file, and the JSON by which the go command finds it.
func (m mutant) overlay() (name string, clean func(), err error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", nil, err
	}
	clean = func() { _ = os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			clean()
		}
	}()
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", nil, err
	}
	mutated := filepath.Join(dir, filepath.Base(m.file))
	changed := string(text[:m.start]) + m.with + string(text[m.end:])
	if err = os.WriteFile(mutated, []byte(changed), 0o600); err != nil {
		return "", nil, err
	}
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return "", nil, err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, clean, os.WriteFile(name, list, 0o600)
}

// goTool runs the go command and returns its output.
func goTool(limit time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit && ctx.Err() == nil {
		return "", fmt.Errorf("run go %s: %w", args[0], err)
	}
	return string(out), err
}

// failure is how go test reports a test, a panic or a run that took too long.
var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^(panic: .*|fatal error: .*)$`)

// firstFailure names the first test that failed, and its first subtest.
func firstFailure(out string) string {
	name := ""
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		if name != "" && !strings.HasPrefix(m[1], name+"/") {
			break
		}
		name = m[1] + m[2]
	}
	if name == "" {
		return "fails"
	}
	return short(name)
}
