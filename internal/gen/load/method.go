package load

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type methodReader struct {
	*unit
	n *model.Entity // the entity that is read
	h *unit         // the package that the entity's client is generated into
}

// customary methods are called by the standard library. They are never messages, so they need no
// directive.
var customary = []string{
	"String", "GoString", "Format", "Error", "LogValue", "Len", "Less", "Swap", "Lock", "Unlock",
	"MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "AppendText", "MarshalBinary", "UnmarshalBinary", "AppendBinary",
}

func isContext(t types.Type) bool { return isNamed(t, "context", "Context") }

func isError(t types.Type) bool {
	return types.Identical(t, types.Universe.Lookup("error").Type())
}

func takesContext(s *types.Signature) bool {
	for v := range s.Params().Variables() {
		if isContext(v.Type()) {
			return true
		}
	}
	return false
}

// hookTypes maps the parameter types of the hooks to the hooks' names.
var hookTypes = map[string]string{"Activation": "OnActivate", "Passivation": "OnPassivate"}

func isHook(f *types.Func) bool { return hookReason(f) != "" }

// hookReason returns the key in hookTypes of the hook that f is or was probably meant to be, or "".
// It looks at the parameters and at the name, which may be misspelt.
func hookReason(f *types.Func) string {
	for reason, name := range hookTypes {
		if f.Name() == name {
			return reason
		}
	}
	if reason := hookType(f.Signature()); reason != "" {
		return reason
	}
	switch nearest(strings.ToLower(f.Name()), []string{"onactivate", "onpassivate", "onactivation", "onpassivation"}) {
	case "onactivate", "onactivation":
		return "Activation"
	case "onpassivate", "onpassivation":
		return "Passivation"
	}
	return ""
}

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

func (s *methodReader) readMethods(m *marked) {
	n := s.n
	named := m.object.Type().(*types.Named)
	methods := slices.Collect(named.Methods())
	inSourceOrder(s.fset, methods, func(f *types.Func) (string, token.Pos) { return f.Name(), f.Pos() })
	tried := false
	for _, f := range methods {
		d := s.methodDirective(f)
		switch signature := f.Signature(); {
		case !f.Exported():
			if d != nil {
				s.add(d.directive.Slash, CodeMisplaced, "remove it: only exported methods are messages",
					"//shard:%s: %s.%s is not exported", d.directive.Name, n.Name, f.Name())
			}
		case d != nil && d.directive.Name == "ignore":
		case n.Durable && f.Name() == migrateMethod && !takesContext(signature):
			s.onPointer(f)
		case n.Journal != nil && f.Name() == applyMethod && !takesContext(signature):
			s.onPointer(f)
		case isHook(f):
			s.onPointer(f)
			s.hook(f)
		case takesContext(signature):
			tried = true
			s.onPointer(f)
			s.message(f, d)
		case !slices.Contains(customary, f.Name()):
			s.add(f.Pos(), CodeNoContext, "make ctx context.Context its first parameter, or write //shard:ignore above it",
				"%s.%s: exported, but not a message: it takes no context", n.Name, f.Name())
		}
	}
	if !tried {
		s.add(m.spec.Pos(), CodeNoMessages, "give it an exported method like Get(ctx context.Context) (int64, error)", "%s: has no messages", n.Name)
	}
}

// onPointer reports a method with a value receiver: its changes would be lost with the copy.
func (s *methodReader) onPointer(f *types.Func) {
	if _, ok := types.Unalias(f.Signature().Recv().Type()).(*types.Pointer); ok {
		return
	}
	at, name := f.Pos(), f.Signature().Recv().Name()
	if name == "" || name == "_" {
		name = model.Lower(s.n.Name[:1])
	}
	s.add(at, CodeReceiver, fmt.Sprintf("write func (%s *%s) %s", name, s.n.Name, f.Name()),
		"%s.%s: its receiver is a copy of the entity, so its changes would be lost", s.n.Name, f.Name())
}

func (s *methodReader) hook(f *types.Func) {
	n, reason := s.n, hookReason(f)
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

// message reads f, a method that takes a context, as a message.
func (s *methodReader) message(f *types.Func, d *methodDirective) {
	n := s.n
	tellOnly, read := d != nil && d.directive.Name == "tell", d != nil && d.directive.Name == "read"
	subject, signature := n.Name+"."+f.Name(), f.Signature()
	params, results := signature.Params(), signature.Results()
	if !isContext(params.At(0).Type()) {
		s.add(f.Pos(), CodeMethod, "put the context first", "%s: its context is not the first parameter", subject)
		return
	}
	if results.Len() == 0 || !isError(results.At(results.Len()-1).Type()) {
		s.add(f.Pos(), CodeMethod, "let it return an error last, or write //shard:ignore above it if it is no message",
			"%s: its last result is no error", subject)
		return
	}
	m := &model.Method{
		Name:     f.Name(),
		Wire:     f.Name(),
		Doc:      docOf(s.syntax, f),
		Context:  params.At(0).Name(),
		Error:    results.At(results.Len() - 1).Name(),
		Variadic: signature.Variadic(),
		TellOnly: tellOnly,
		Read:     read,
	}
	if read && !n.Durable && !n.Pool {
		s.add(d.directive.Slash, CodeMisplaced, "remove it: a call of a type that is not durable waits for no store", "//shard:read: %s is not durable", n.Name)
	}
	if tellOnly && results.Len() > 1 {
		s.add(f.Pos(), CodeMethod, "let it return an error alone, or remove the directive", "%s: has results, which callers of a //shard:tell method cannot get", subject)
		return
	}
	for i := 1; i < params.Len(); i++ {
		if p, ok := s.param(subject, params.At(i), "argument", i); ok {
			p.Number = i
			m.Params = append(m.Params, p)
			checkJSON(s.source, n, subject, params.At(i))
		}
	}
	for i := range results.Len() - 1 {
		if r, ok := s.param(subject, results.At(i), "result", i+1); ok {
			r.Number = i + 1
			m.Results = append(m.Results, r)
			checkJSON(s.source, n, subject, results.At(i))
		}
	}
	n.Methods = append(n.Methods, m)
}

// param reads a parameter or result. role is "argument" or "result"; false means that v is refused.
func (s *methodReader) param(method string, v *types.Var, role string, number int) (model.Param, bool) {
	name := v.Name()
	t, r := s.h.crossing.of(v.Type())
	if r == nil {
		return model.Param{Name: name, Type: t}, true
	}
	if name == "" || name == "_" {
		name = role + " " + strconv.Itoa(number)
	}
	if r.code == CodeUnknownType && !r.pos.IsValid() && s.syntax.awaited(v, s.expected) {
		r = &refusal{code: CodeType, why: "a reference cannot cross the wire", remedy: "pass the id"}
	}
	s.refuse(v, method+": "+name, r)
	return model.Param{}, false
}

func docOf(s *syntax, f *types.Func) []string {
	decl := s.funcs[f.Pos()]
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
