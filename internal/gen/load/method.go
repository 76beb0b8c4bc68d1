package load

import (
	"go/ast"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

// methods reads the entity's own methods: messages, hooks, and those that are
// nearly one.
func (s *source) methods(n *model.Entity, m *marked) {
	named := m.object.Type().(*types.Named)
	methods := slices.Collect(named.Methods())
	slices.SortFunc(methods, func(a, b *types.Func) int {
		return strings.Compare(sortKey(s.fset, a.Pos()), sortKey(s.fset, b.Pos()))
	})
	tried := false
	for _, f := range methods {
		if !f.Exported() {
			continue
		}
		switch signature := f.Signature(); {
		case isHook(f):
			s.hook(n, f)
		case takesContext(signature):
			tried = true
			s.message(n, f, signature)
		}
	}
	if !tried {
		s.add(m.spec.Pos(), CodeNoMessages, "give it an exported method like Get(ctx context.Context) (int64, error)", "%s: answers no message", n.Name)
	}
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

// takesContext reports whether a method has a context among its parameters.
func takesContext(s *types.Signature) bool {
	for v := range s.Params().Variables() {
		if isContext(v.Type()) {
			return true
		}
	}
	return false
}

// Hooks are known by the type of their parameter.
var hookTypes = map[string]string{"Activation": "OnActivate", "Passivation": "OnPassivate"}

// isHook reports whether a method is, or was meant as, a hook.
func isHook(f *types.Func) bool {
	return hookType(f.Signature()) != "" || f.Name() == "OnActivate" || f.Name() == "OnPassivate"
}

// hookType returns the name of the hook's reason among the parameters, or "".
func hookType(s *types.Signature) string {
	for v := range s.Params().Variables() {
		for name := range hookTypes {
			if isNamed(v.Type(), codegenPath, name) {
				return name
			}
		}
	}
	return ""
}

func (s *source) hook(n *model.Entity, f *types.Func) {
	reason := hookType(f.Signature())
	if reason == "" {
		reason = strings.TrimPrefix(f.Name(), "On")
		reason = map[string]string{"Activate": "Activation", "Passivate": "Passivation"}[reason]
	}
	want := hookTypes[reason] + "(context.Context, shard." + reason + ") error"
	params, results := f.Signature().Params(), f.Signature().Results()
	fits := f.Name() == hookTypes[reason] && params.Len() == 2 && isContext(params.At(0).Type()) &&
		isNamed(params.At(1).Type(), codegenPath, reason) && results.Len() == 1 && isError(results.At(0).Type())
	if !fits {
		s.add(f.Pos(), CodeHook, "declare it as "+want, "%s.%s: not a hook, though it looks like one", n.Name, f.Name())
		return
	}
	if reason == "Activation" {
		n.Hooks.Activate = true
	} else {
		n.Hooks.Passivate = true
	}
}

// message reads a method that takes a context.
func (s *source) message(n *model.Entity, f *types.Func, signature *types.Signature) {
	subject := n.Name + "." + f.Name()
	params, results := signature.Params(), signature.Results()
	if !isContext(params.At(0).Type()) {
		s.add(f.Pos(), CodeMethod, "put the context first", "%s: its context is not the first parameter", subject)
		return
	}
	if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) {
		s.add(f.Pos(), CodeMethod, "let it return an error last, or start its name with a small letter if it is no message",
			"%s: its last result is no error", subject)
		return
	}
	m := &model.Method{
		Name:     f.Name(),
		Doc:      s.doc(f),
		Context:  params.At(0).Name(),
		Error:    results.At(results.Len() - 1).Name(),
		Variadic: signature.Variadic(),
	}
	for i := 1; i < params.Len(); i++ {
		if p, ok := s.param(subject, params.At(i), "argument", i); ok {
			m.Params = append(m.Params, p)
		}
	}
	for i := range results.Len() - 1 {
		if r, ok := s.param(subject, results.At(i), "result", i+1); ok {
			m.Results = append(m.Results, r)
		}
	}
	n.Methods = append(n.Methods, m)
}

// param reads one parameter or result.
func (s *source) param(method string, v *types.Var, role string, number int) (model.Param, bool) {
	name := v.Name()
	t, r := s.crossing.of(v.Type())
	if r == nil {
		return model.Param{Name: name, Type: t}, true
	}
	if name == "" || name == "_" {
		name = role + " " + strconv.Itoa(number)
	}
	if r.code == CodeUnknownType && !r.pos.IsValid() && s.awaited(v) {
		r = &refusal{code: CodeType, why: "a reference cannot cross the wire", remedy: "pass the id"}
	}
	s.refuse(v, method+": "+name, r)
	return model.Param{}, false
}

// doc returns the lines of a method's comment without its directives.
func (s *source) doc(f *types.Func) []string {
	decl := s.syntax.funcs[f.Pos()]
	if decl == nil || decl.Doc == nil {
		return nil
	}
	var lines []string
	for _, c := range decl.Doc.List {
		if _, isDirective := ast.ParseDirective(c.Slash, c.Text); !isDirective {
			lines = append(lines, c.Text)
		}
	}
	for len(lines) > 0 && lines[len(lines)-1] == "//" {
		lines = lines[:len(lines)-1]
	}
	return lines
}
