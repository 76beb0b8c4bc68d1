package templates

import (
	"go/doc"
	"go/token"
	"slices"
	"strconv"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type scope struct{ taken map[string]bool }

func (s *scope) pick(name string) string {
	picked := name
	for i := 2; !s.free(picked); i++ {
		picked = name + strconv.Itoa(i)
	}
	s.taken[picked] = true
	return picked
}

func (s *scope) free(name string) bool {
	return !s.taken[name] && !doc.IsPredeclared(name) && !token.IsKeyword(name)
}

// keep picks the user's name. If that is "" or _, it picks fallback. If the user's name is
// predeclared or already taken, keep appends "Arg".
func (s *scope) keep(name, fallback string) string {
	switch {
	case name == "" || name == "_":
		return s.pick(fallback)
	case s.free(name):
		return s.pick(name)
	}
	return s.pick(name + "Arg")
}

// locals are the local names in a function for one method's messages.
type locals struct {
	*scope
	ctx     string
	params  []string
	results []string
	err     string
}

// messageLocals picks the local names of m's functions. It prefers the user's names.
func (e *emitter) messageLocals(m *model.Method) *locals {
	l := &locals{scope: e.newScope()}
	for _, p := range slices.Concat(m.Params, m.Results) {
		for _, name := range exprNames(p.Type.Expr) {
			l.taken[name] = true
		}
	}
	l.ctx = l.keep(m.Context, "ctx")
	for _, p := range m.Params {
		l.params = append(l.params, l.keep(p.Name, invent(p.Type, "arg")))
	}
	for _, r := range m.Results {
		l.results = append(l.results, l.keep(r.Name, "result"))
	}
	l.err = l.keep(m.Error, "err")
	return l
}

func (l *locals) messageParams(m *model.Method) []jen.Code {
	params := typed(m.Params, l.params)
	if m.Variadic {
		params[len(params)-1].variadic = true
	}
	return list(append([]parameter{coded(l.ctx, contextType())}, params...))
}

func (l *locals) values() []jen.Code { return ids(l.results) }

func (l *locals) withErr() []jen.Code { return append(l.values(), jen.Id(l.err)) }

// invent derives a variable's name from a type.
func invent(t *model.Type, otherwise string) string {
	if x := t.Expr; x.Op == model.Named && !doc.IsPredeclared(x.Name) {
		return model.Lower(x.Name)
	}
	return otherwise
}

// exprNames returns the names of types in x.
func exprNames(x *model.Expr) []string {
	if x == nil {
		return nil
	}
	var names []string
	if x.Op == model.Named {
		names = append(names, x.Name)
	}
	for _, a := range x.Args {
		names = append(names, exprNames(a)...)
	}
	return append(append(names, exprNames(x.Key)...), exprNames(x.Elem)...)
}
