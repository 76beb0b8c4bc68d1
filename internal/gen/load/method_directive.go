package load

import (
	"go/ast"
	"go/types"
)

// A methodDirective is a shard:ignore, a shard:read or a shard:tell.
type methodDirective struct {
	directive ast.Directive
	used      bool // it stands at a method of an entity
}

// markMethod records a directive that stands at a method.
func (s *source) markMethod(d ast.Directive, at ast.Node) {
	f, _ := at.(*ast.FuncDecl)
	if d.Args != "" {
		s.add(d.ArgsPos, CodeOption, "remove "+d.Args, "//shard:%s: takes no options", d.Name)
	}
	switch {
	case f == nil || f.Recv == nil:
		s.add(d.Slash, CodeMisplaced, "put it into the comment right above a method of an entity", "//shard:%s: belongs to no method", d.Name)
	case s.methodDirectives[f.Name.Pos()] != nil:
		s.add(d.Slash, CodeMisplaced, "keep one", "%s: has //shard:%s already", f.Name.Name, s.methodDirectives[f.Name.Pos()].directive.Name)
	default:
		s.methodDirectives[f.Name.Pos()] = &methodDirective{directive: d}
	}
}

// methodDirective returns the directive of an entity's method, or nil.
func (s *source) methodDirective(f *types.Func) *methodDirective {
	d := s.methodDirectives[f.Pos()]
	if d != nil {
		d.used = true
	}
	return d
}

// unusedMethodDirectives reports directives at methods that do not belong to an entity.
func (s *source) unusedMethodDirectives() {
	for _, d := range s.methodDirectives { //arch:order-free diagnostics are sorted
		if !d.used {
			s.add(d.directive.Slash, CodeMisplaced, "remove it, or annotate the method's struct", "//shard:%s: stands at no message of an entity", d.directive.Name)
		}
	}
}
