package templates

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
	abi "github.com/shardgen/shardgen/runtime/codegen"
)

func (e *emitter) spelt(x *model.Expr) string {
	switch x.Op {
	case model.SliceOf:
		return "[]" + e.spelt(x.Elem)
	case model.ArrayOf:
		return fmt.Sprintf("[%d]%s", x.Len, e.spelt(x.Elem))
	case model.MapOf:
		return "map[" + e.spelt(x.Key) + "]" + e.spelt(x.Elem)
	case model.PointerTo:
		return "*" + e.spelt(x.Elem)
	}
	name := x.Name
	for _, i := range e.pkg.Imports {
		if i.Path == x.Path {
			name = i.Name + "." + name
		}
	}
	if len(x.Args) == 0 {
		return name
	}
	args := make([]string, len(x.Args))
	for i, a := range x.Args {
		args[i] = e.spelt(a)
	}
	return name + "[" + strings.Join(args, ", ") + "]"
}

// Import paths that generated code may need beside the user's.
const (
	ContextPath = "context"
	ErrorsPath  = "errors"
	ShardPath   = "github.com/shardgen/shardgen/runtime"
	CodegenPath = "github.com/shardgen/shardgen/runtime/codegen"
)

type emitter struct {
	pkg  *model.Package
	file *jen.File
	// functions are the requested functions of types; wanted are those not yet printed.
	functions map[function]jen.Code
	wanted    []function
	// jsonOneofs reports whether a message with a JSON form may hold an interface with cases.
	jsonOneofs bool
}

func newEmitter(pkg *model.Package) *emitter {
	f := jen.NewFilePathName(pkg.Path, pkg.Name)
	for _, line := range pkg.Header() {
		f.HeaderComment(line)
	}
	if pkg.Constraint != "" {
		f.HeaderComment("//go:build " + pkg.Constraint)
	}
	for _, i := range pkg.Imports {
		if i.Alias {
			f.ImportAlias(i.Path, i.Name)
		} else {
			f.ImportName(i.Path, i.Name)
		}
	}
	return &emitter{pkg: pkg, file: f, functions: make(map[function]jen.Code)}
}

// aliases emits aliases for types that local variables hide.
func (e *emitter) aliases() {
	for _, x := range e.pkg.Aliases {
		plain := *x
		plain.Alias = ""
		e.comment("%s is an alias of %s: local variables below have that name.", x.Alias, e.spelt(&plain))
		e.file.Type().Id(x.Alias).Op("=").Add(typ(&plain))
	}
}

// abi emits a declaration that does not compile with a runtime of another ABI version.
func (e *emitter) abi() {
	e.comment("Fails to compile if this file was generated for another version of shardgen: run go generate.")
	e.file.Const().Id("_").Op("=").Add(codegen("ABI" + strconv.Itoa(abi.ABI6)))
}

// isClient reports whether the file only has clients of another package's entities.
func (e *emitter) isClient() bool { return e.pkg.Owner != "" }

func (e *emitter) entityType(n *model.Entity) *jen.Statement {
	if e.isClient() {
		return jen.Id(n.API())
	}
	return jen.Op("*").Id(n.Name)
}

func (e *emitter) methodOf(n *model.Entity, m *model.Method) *jen.Statement {
	if e.isClient() {
		return jen.Id(n.API()).Dot(m.Name)
	}
	return jen.Parens(jen.Op("*").Id(n.Name)).Dot(m.Name)
}

func (e *emitter) hostPath() string {
	if e.isClient() {
		return e.pkg.Owner
	}
	return e.pkg.Path
}

func (e *emitter) methodLink(n *model.Entity, m *model.Method) string {
	if e.isClient() {
		return "[" + n.API() + "." + m.Name + "]"
	}
	return "[" + n.Name + "." + m.Name + "]"
}

func (e *emitter) render() ([]byte, error) {
	var buf bytes.Buffer
	if err := e.file.Render(&buf); err != nil {
		return nil, fmt.Errorf("emit %s: %w", e.pkg.Path, err)
	}
	return groupImports(buf.Bytes()), nil
}

// groupImports puts the standard library into a group of its own, as gofumpt does. The printer
// makes one group.
func groupImports(src []byte) []byte {
	const begin, end = "import (\n", "\n)\n"
	head, rest, ok := strings.Cut(string(src), begin)
	if !ok {
		return src
	}
	block, rest, ok := strings.Cut(rest, end)
	if !ok {
		return src
	}
	var std, others []string
	for line := range strings.SplitSeq(block, "\n") {
		path := line[strings.Index(line, `"`)+1:]
		first, _, _ := strings.Cut(path, "/")
		if strings.Contains(first, ".") {
			others = append(others, line)
		} else {
			std = append(std, line)
		}
	}
	groups := strings.Join(std, "\n")
	if len(std) > 0 && len(others) > 0 {
		groups += "\n\n"
	}
	groups += strings.Join(others, "\n")
	return []byte(head + begin + groups + end + rest)
}

// commentWidth is the maximum width of comments in bytes.
const commentWidth = 80

func (e *emitter) comment(format string, args ...any) {
	e.file.Line()
	for _, line := range wrap(fmt.Sprintf(format, args...)) {
		e.file.Comment(line)
	}
}

func wrap(text string) []string {
	var lines []string
	line := "//"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > commentWidth && line != "//" {
			lines = append(lines, line)
			line = "//"
		}
		line += " " + word
	}
	return append(lines, line)
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "AEIOaeio") {
		return "an " + noun
	}
	return "a " + noun
}

// newScope returns a scope in which imports' names are taken.
func (e *emitter) newScope() *scope {
	s := &scope{taken: make(map[string]bool)}
	for _, i := range e.pkg.Imports {
		s.taken[i.Name] = true
	}
	return s
}
