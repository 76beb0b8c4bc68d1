package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// The directives that exist.
var (
	entityDirectives = []string{"entity", "singleton"}
	methodDirectives = []string{"ignore", "read", "tell"}
	directives       = slices.Concat(entityDirectives, methodDirectives, []string{"error", oneofDirective})
)

// A marked is a struct with a shard:entity or a shard:singleton directive.
type marked struct {
	object    *types.TypeName
	spec      *ast.TypeSpec
	directive ast.Directive
}

func (m *marked) singleton() bool { return m.directive.Name == "singleton" }

// findDirectives finds the entities, and comments that are misspelt directives.
func (s *source) findDirectives() {
	for _, file := range s.pkg.Syntax {
		attached := s.attachments(file)
		for _, group := range file.Comments {
			for _, c := range group.List {
				s.readComment(c, file, attached)
			}
		}
	}
	inSourceOrder(s.fset, s.marked, func(m *marked) (string, token.Pos) { return m.object.Name(), m.spec.Pos() })
}

// attachments maps the comments that document a type, variables or a function to the
// declaration: a *ast.TypeSpec, a *ast.ValueSpec, all specs of a *ast.GenDecl or a
// *ast.FuncDecl.
func (s *source) attachments(file *ast.File) map[*ast.Comment]ast.Node {
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

// almost matches comments that look like directives of this tool.
var almost = regexp.MustCompile(`^(?://|/\*)\s*(?i:shard(?:gen)?)\s*:(\s*)(\w+)(.*)`)

func (s *source) readComment(c *ast.Comment, file *ast.File, attached map[*ast.Comment]ast.Node) {
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

// readNearMiss reports a comment that was meant as a directive and is not one. It
// ignores prose that begins with the word.
func (s *source) readNearMiss(c *ast.Comment) {
	match := almost.FindStringSubmatch(c.Text)
	if match == nil {
		return
	}
	space, name, rest := match[1], strings.ToLower(match[2]), strings.Trim(match[3], " \t*/")
	meant := nearest(name, directives)
	prose := space != "" && rest != "" && !strings.Contains(rest, "=")
	if meant == "" || prose {
		return
	}
	s.add(c.Slash, CodeNearMiss, "write //shard:"+meant, "%q: not a directive, though it looks like one", firstLine(c.Text))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func suggestion(name string) string {
	if meant := nearest(strings.ToLower(name), directives); meant != "" {
		return "write //shard:" + meant
	}
	return "there are //shard:" + strings.Join(directives, ", //shard:")
}

// nearest returns the one of names that a misspelt name was probably meant to be, or
// "".
func nearest(name string, names []string) string {
	best, least := "", 3
	for _, n := range names {
		if d := distance(name, n); d < least && d <= len(n)/3 {
			best, least = n, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, change or transpose (Damerau
// 1964).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// mark records an entity, if the directive stands at a struct that can be one.
func (s *source) mark(d ast.Directive, spec *ast.TypeSpec) {
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

// fit reports whether a type can be an entity, and adds a diagnostic if not.
func (s *source) fit(m *marked) bool {
	object, spec, name, a := m.object, m.spec, m.object.Name(), "an entity"
	if m.singleton() {
		a = "a singleton"
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
