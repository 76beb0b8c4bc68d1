package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

type marked struct {
	object    *types.TypeName
	spec      *ast.TypeSpec
	directive ast.Directive
}

func (m *marked) singleton() bool { return m.directive.Name == "singleton" }

func (m *marked) pool() bool { return m.directive.Name == "pool" }

type methodDirective struct {
	directive ast.Directive
	used      bool // it is above a method of an entity
}

type markedError struct {
	directive ast.Directive
	spec      ast.Spec // *ast.TypeSpec or *ast.ValueSpec
}

type directives struct {
	*source
	marked  []*marked
	methods map[token.Pos]*methodDirective // by the position of the method's name
	errors  []markedError
}

func (s *directives) findDirectives() {
	for _, file := range s.pkg.Syntax {
		attached := attachments(file)
		for _, group := range file.Comments {
			for _, c := range group.List {
				s.readComment(c, file, attached)
			}
		}
	}
	inSourceOrder(s.fset, s.marked, func(m *marked) (string, token.Pos) { return m.object.Name(), m.spec.Pos() })
}

// attachments maps doc comments to the *ast.TypeSpec, *ast.ValueSpec, *ast.FuncDecl or *ast.GenDecl
// that they document.
func attachments(file *ast.File) map[*ast.Comment]ast.Node {
	attached := make(map[*ast.Comment]ast.Node)
	attach := func(doc *ast.CommentGroup, node ast.Node) {
		if doc != nil {
			for _, c := range doc.List {
				attached[c] = node
			}
		}
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			attach(f.Doc, f)
			continue
		}
		g, ok := decl.(*ast.GenDecl)
		switch {
		case !ok:
			continue
		case len(g.Specs) == 1:
			attach(g.Doc, g.Specs[0])
		default:
			attach(g.Doc, g)
		}
		for _, spec := range g.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				attach(spec.Doc, spec)
			case *ast.ValueSpec:
				attach(spec.Doc, spec)
			}
		}
	}
	return attached
}

var almost = regexp.MustCompile(`^(?://|/\*)\s*(?i:shard(?:gen)?)\s*:(\s*)(\w+)(.*)`)

func (s *directives) readComment(c *ast.Comment, file *ast.File, attached map[*ast.Comment]ast.Node) {
	d, ok := ast.ParseDirective(c.Slash, c.Text)
	if !ok || d.Tool != "shard" {
		s.readNearMiss(c)
		return
	}
	switch {
	case slices.Contains(entityDirectives, d.Name):
		spec, _ := attached[c].(*ast.TypeSpec)
		s.mark(d, spec)
	case slices.Contains(methodDirectives, d.Name):
		s.markMethod(d, attached[c])
	case d.Name == "error":
		s.markError(d, attached[c])
	case d.Name == oneofDirective:
		s.markOneof(d, file, attached[c])
	default:
		s.add(c.Slash, CodeNearMiss, suggestion(d.Name), "//shard:%s: no such directive", d.Name)
	}
}

// readNearMiss reports a misspelt directive, but no sentence that begins with "shard:".
func (s *directives) readNearMiss(c *ast.Comment) {
	match := almost.FindStringSubmatch(c.Text)
	if match == nil {
		return
	}
	space, name, rest := match[1], strings.ToLower(match[2]), strings.Trim(match[3], " \t*/")
	meant := nearest(name, allDirectives)
	prose := space != "" && rest != "" && !strings.Contains(rest, "=")
	if meant == "" || prose {
		return
	}
	s.add(c.Slash, CodeNearMiss, "write //shard:"+meant, "%q: not a directive, though it looks like one", firstLine(c.Text))
}

func (s *directives) mark(d ast.Directive, spec *ast.TypeSpec) {
	if spec == nil {
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above one struct, without a blank line between",
			"//shard:%s: belongs to no type", d.Name)
		return
	}
	object, _ := s.pkg.TypesInfo.Defs[spec.Name].(*types.TypeName)
	if object == nil {
		s.add(spec.Pos(), CodeEntity, "", "%s: its declaration does not type-check", spec.Name.Name)
		return
	}
	for _, m := range s.marked {
		if m.object == object {
			s.add(d.Slash, CodeMisplaced, "keep one", "%s: has //shard:%s already", object.Name(), m.directive.Name)
			return
		}
	}
	m := &marked{object, spec, d}
	if s.fit(m) {
		s.marked = append(s.marked, m)
	}
}

func (s *directives) fit(m *marked) bool {
	object, spec, name, a := m.object, m.spec, m.object.Name(), "an entity"
	if m.singleton() {
		a = "a singleton"
	} else if m.pool() {
		a = "a pool"
	}
	_, isStruct := spec.Type.(*ast.StructType)
	switch {
	case object.IsAlias():
		s.add(spec.Pos(), CodeEntity, "annotate the struct itself", "%s: an alias cannot be %s", name, a)
	case !isStruct:
		s.add(spec.Pos(), CodeEntity, "declare it as a struct", "%s: not a struct", name)
	case spec.TypeParams != nil:
		s.add(spec.Pos(), CodeEntity, "declare one struct for each type argument", "%s: a generic struct cannot be %s", name, a)
	case !object.Exported():
		s.add(spec.Pos(), CodeEntity, "start its name with a capital: clients name it", "%s: not exported", name)
	default:
		return true
	}
	return false
}

func (s *directives) markMethod(d ast.Directive, at ast.Node) {
	f, _ := at.(*ast.FuncDecl)
	if d.Args != "" {
		s.add(d.ArgsPos, CodeOption, "remove "+d.Args, "//shard:%s: takes no options", d.Name)
	}
	switch {
	case f == nil || f.Recv == nil:
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above a method of an entity", "//shard:%s: belongs to no method", d.Name)
	case s.methods[f.Name.Pos()] != nil:
		s.add(d.Slash, CodeMisplaced, "keep one", "%s: has //shard:%s already", f.Name.Name, s.methods[f.Name.Pos()].directive.Name)
	default:
		s.methods[f.Name.Pos()] = &methodDirective{directive: d}
	}
}

func (s *directives) methodDirective(f *types.Func) *methodDirective {
	d := s.methods[f.Pos()]
	if d != nil {
		d.used = true
	}
	return d
}

// unusedMethodDirectives reports method directives above other functions than an entity's messages.
func (s *directives) unusedMethodDirectives() {
	for _, d := range s.methods { //arch:order-free diagnostics are sorted
		if !d.used {
			s.add(d.directive.Slash, CodeMisplaced, "remove it, or annotate the method's struct", "//shard:%s: not above a message of an entity", d.directive.Name)
		}
	}
}

func (s *directives) markError(d ast.Directive, at ast.Node) {
	if d.Args != "" {
		s.add(d.ArgsPos, CodeOption, "remove "+d.Args, "//shard:error: takes no options")
	}
	specs := []ast.Spec{}
	switch at := at.(type) {
	case *ast.TypeSpec:
		specs = append(specs, at)
	case *ast.ValueSpec:
		specs = append(specs, at)
	case *ast.GenDecl:
		if at.Tok == token.VAR || at.Tok == token.TYPE {
			specs = at.Specs
		}
	}
	if len(specs) == 0 {
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above a variable or a type", "//shard:error: belongs to no variable and no type")
	}
	for _, spec := range specs {
		s.errors = append(s.errors, markedError{d, spec})
	}
}

func (s *directives) markOneof(d ast.Directive, file *ast.File, at ast.Node) {
	spec, _ := at.(*ast.TypeSpec)
	if spec == nil {
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above one interface, without a blank line between",
			"//shard:oneof: belongs to no type")
		return
	}
	object, _ := s.pkg.TypesInfo.Defs[spec.Name].(*types.TypeName)
	switch {
	case object == nil:
		s.add(spec.Pos(), CodeUnknownType, "", "%s: its declaration does not type-check", spec.Name.Name)
	case s.oneofs[object] != nil:
		s.add(d.Slash, CodeMisplaced, "keep one", "%s: has //shard:oneof already", object.Name())
	default:
		s.oneofs[object] = &oneof{spec: spec, file: file, list: d.Args}
	}
}

func (s *directives) errorsAlone() {
	if len(s.errors) > 0 && s.model.Owner == "" {
		s.add(s.errors[0].directive.Slash, CodeMisplaced, "declare it in the entity's package: var _ = thispackage.ErrName with the directive above it",
			"//shard:error: no entity of this package returns it")
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// declaresForeign reports whether the directive declares only other packages' variables, as in var
// _ = sql.ErrNoRows.
func declaresForeign(m markedError) bool {
	v, ok := m.spec.(*ast.ValueSpec)
	return ok && !slices.ContainsFunc(v.Names, func(n *ast.Ident) bool { return n.Name != "_" })
}

// The names of directives, without //shard:.
var (
	entityDirectives = []string{"entity", "singleton", "pool"}
	methodDirectives = []string{"ignore", "read", "tell"}
	allDirectives    = slices.Concat(entityDirectives, methodDirectives, []string{"error", oneofDirective})
)

func suggestion(name string) string {
	if meant := nearest(strings.ToLower(name), allDirectives); meant != "" {
		return "write //shard:" + meant
	}
	return "there are //shard:" + strings.Join(allDirectives, ", //shard:")
}
