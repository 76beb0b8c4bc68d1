package load

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/packages"
)

type syntax struct {
	pkg    *packages.Package
	fields map[token.Pos]*ast.Field // by the position of each name
	funcs  map[token.Pos]*ast.FuncDecl
}

func newSyntax(p *packages.Package) *syntax {
	s := &syntax{pkg: p, fields: make(map[token.Pos]*ast.Field), funcs: make(map[token.Pos]*ast.FuncDecl)}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				s.funcs[n.Name.Pos()] = n
			case *ast.BlockStmt:
				return false
			case *ast.Field:
				s.addField(n)
			}
			return true
		})
	}
	return s
}

func (s *syntax) addField(f *ast.Field) {
	for _, name := range f.Names {
		s.fields[name.Pos()] = f
	}
	if len(f.Names) > 0 {
		return
	}
	// An embedded field, or a parameter without a name, has the position of its type.
	s.fields[f.Type.Pos()] = f
	ast.Inspect(f.Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			s.fields[id.Pos()] = f
		}
		return true
	})
}

// generatedSuffixes are the endings of generated types' names.
var generatedSuffixes = []string{"API", "Client", "Ref", "Tell", "Extractor"}

func hasGeneratedSuffix(name string) bool {
	for _, suffix := range generatedSuffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// unknown returns the type checker's message about v's type. If there is none, it returns the
// argument otherwise.
func (s *syntax) unknown(v *types.Var, otherwise string) string {
	f := s.fields[v.Pos()]
	if f == nil {
		return otherwise
	}
	for _, e := range s.pkg.TypeErrors {
		if e.Pos >= f.Type.Pos() && e.Pos <= f.Type.End() {
			return e.Msg
		}
	}
	return otherwise
}

// awaited reports whether a field's type is unknown only because a named type is still to be
// generated, in another package or as an expected name in this one.
func (s *syntax) awaited(v *types.Var, expected map[string]bool) bool {
	f := s.fields[v.Pos()]
	if f == nil {
		return false
	}
	found, awaited := false, true
	ast.Inspect(f.Type, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			p, ok := n.X.(*ast.Ident)
			if _, isPackage := s.pkg.TypesInfo.Uses[p].(*types.PkgName); ok && isPackage {
				if s.unresolved(n.Sel) {
					found = true
					awaited = awaited && hasGeneratedSuffix(n.Sel.Name)
				}
				return false
			}
		case *ast.Ident:
			if s.unresolved(n) {
				found = true
				awaited = awaited && expected[n.Name]
			}
		}
		return true
	})
	return found && awaited
}

func (s *syntax) unresolved(id *ast.Ident) bool {
	return s.pkg.TypesInfo.Uses[id] == nil && s.pkg.TypesInfo.Defs[id] == nil
}
