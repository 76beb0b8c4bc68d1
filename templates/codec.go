package templates

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/shardgen/shardgen/internal/gen/model"
)

type place struct {
	value   *jen.Statement // v.Line
	pointer *jen.Statement // &v.Line
}

func variable(name string) place {
	return place{jen.Id(name), jen.Op("&").Id(name)}
}

func selected(of, name string) place {
	return place{jen.Id(of).Dot(name), jen.Op("&").Id(of).Dot(name)}
}

// pointed returns the place to which the local variable called name points.
func pointed(name string) place {
	return place{jen.Parens(jen.Op("*").Id(name)), jen.Id(name)}
}

var helpers = map[model.Shape]string{
	model.Bool: "Bool", model.Int: "Int", model.Uint: "Uint", model.Float32: "Float32", model.Float64: "Float64",
	model.String: "String", model.Bytes: "Bytes", model.Time: "Time",
	model.Text: "Text", model.Binary: "Binary", model.Gob: "Gob", model.Proto: "Proto",
}

func all(v *jen.Statement) *jen.Statement { return v.Clone().Index(jen.Op(":")) }

type codecEmitter struct{ *emitter }

// appendField prints the call that appends v to b as field num. Zero values may be omitted. in is
// the type whose function is being printed, or nil.
func (e codecEmitter) appendField(t *model.Type, b *jen.Statement, num int, v *jen.Statement, in *model.Type) *jen.Statement {
	helper := ""
	switch {
	case t.Shape == model.ByteArray:
		helper, v = "Bytes", all(v)
	case t.Shape == model.Array && t.Packed():
		helper, v = helpers[t.Elem.Shape]+"s", all(v)
	case t.Listed():
		helper = helpers[t.Elem.Shape] + "s"
	default:
		helper = helpers[t.Shape]
	}
	if helper != "" {
		return codegen("Append"+helper).Call(b, jen.Lit(num), v)
	}
	return e.call(t, appendFunc, in, b, jen.Lit(num), v)
}

// appendElement prints the encoding of an element like appendField, but always writes exactly one
// field, even for zero.
func (e codecEmitter) appendElement(t *model.Type, b, num, v *jen.Statement, in *model.Type) *jen.Statement {
	switch {
	case t.Shape == model.ByteArray:
		return codegen("PutBytes").Call(b, num, all(v))
	case helpers[t.Shape] != "":
		return codegen("Put"+helpers[t.Shape]).Call(b, num, v)
	case t.OneField():
		return e.call(t, appendFunc, in, b, num, v)
	}
	return e.call(t, appendElementFunc, in, b, num, v)
}

func (e codecEmitter) readField(t *model.Type, d *jen.Statement, p place) *jen.Statement {
	switch {
	case t.Shape == model.ByteArray:
		return codegen("ReadByteArray").Call(d, all(p.value))
	case t.Listed():
		return codegen("Read"+helpers[t.Elem.Shape]+"s").Call(d, p.pointer)
	case helpers[t.Shape] != "":
		return codegen("Read"+helpers[t.Shape]).Call(d, p.pointer)
	}
	return e.call(t, readFunc, nil, d, p.pointer)
}

func (e codecEmitter) readElement(t *model.Type, d *jen.Statement, p place) *jen.Statement {
	if t.OneField() {
		return e.readField(t, d, p)
	}
	return e.call(t, readElementFunc, nil, d, p.pointer)
}

// init prints statements that make the nil maps in p.
func (e codecEmitter) init(g *jen.Group, t *model.Type, p place) {
	switch {
	case !t.NeedsInit:
	case t.Shape == model.Map:
		g.Add(codegen("InitMap").Call(p.pointer))
	default:
		g.Add(e.call(t, initFunc, nil, p.pointer))
	}
}

type function struct {
	of   *model.Type
	what what
}

type what int

const (
	appendFunc what = iota
	appendElementFunc
	readFunc
	readElementFunc
	initFunc
	cloneFunc
	knownFunc
)

func (f function) name() string {
	switch f.what {
	case appendFunc:
		return f.of.AppendFunc()
	case appendElementFunc:
		return f.of.AppendElementFunc()
	case readFunc:
		return f.of.ReadFunc()
	case readElementFunc:
		return f.of.ReadElementFunc()
	case initFunc:
		return f.of.InitFunc()
	case knownFunc:
		return f.of.KnownFunc()
	}
	return f.of.CloneFunc()
}

// want returns the name of function w of type t, and requests that [codecEmitter.types] emit the
// function.
func (e codecEmitter) want(t *model.Type, w what) *jen.Statement {
	f := function{t, w}
	if _, known := e.functions[f]; !known {
		e.functions[f] = nil
		e.wanted = append(e.wanted, f)
	}
	return jen.Id(f.name())
}

// call prints a call of function w of type t, and requests that [codecEmitter.types] emit the
// function. in is the calling function's type, or nil.
func (e codecEmitter) call(t *model.Type, w what, in *model.Type, args ...jen.Code) *jen.Statement {
	name := e.want(t, w)
	if t.Recursive && (w == appendFunc || w == appendElementFunc || w == cloneFunc) {
		switch {
		case in == nil || !in.Recursive:
			args = append(args, codegen("MaxDepth"))
		case in == t && w == appendFunc && !t.OneField():
			args = append(args, jen.Id("depth"))
		default:
			args = append(args, jen.Id("depth").Op("-").Lit(1))
		}
	}
	return name.Call(args...)
}

func (e codecEmitter) types() {
	for len(e.wanted) > 0 {
		f := e.wanted[0]
		e.wanted = e.wanted[1:]
		switch f.what {
		case appendFunc:
			e.functions[f] = typeEmitter(e).appendType(f.of)
		case appendElementFunc:
			e.functions[f] = typeEmitter(e).appendWrapped(f.of)
		case readFunc:
			e.functions[f] = typeEmitter(e).readType(f.of)
		case readElementFunc:
			e.functions[f] = typeEmitter(e).readWrapped(f.of)
		case initFunc:
			e.functions[f] = typeEmitter(e).initType(f.of)
		case cloneFunc:
			e.functions[f] = cloneEmitter(e).cloneType(f.of)
		case knownFunc:
			e.functions[f] = stateEmitter(e).knownType(f.of)
		}
	}
	var printed []jen.Code
	has := make(map[what]bool)
	for _, t := range e.pkg.Types {
		for w := appendFunc; w <= knownFunc; w++ {
			if code := e.functions[function{t, w}]; code != nil {
				printed = append(printed, code)
				has[w] = true
			}
		}
	}
	e.functionsComment(has)
	for _, code := range printed {
		e.file.Line()
		e.file.Add(code)
	}
}

func (e codecEmitter) functionsComment(has map[what]bool) {
	var does []string
	for _, f := range []struct {
		what what
		does string
	}{
		{appendFunc, "append… encodes a value as field num"},
		{readFunc, "read… decodes a field into v"},
		{initFunc, "init… makes the nil maps in a value"},
		{cloneFunc, "clone… returns a copy as another node would receive it"},
		{knownFunc, "known… reports whether this program knows a field of a state"},
	} {
		if has[f.what] {
			does = append(does, f.does)
		}
	}
	if len(does) == 0 {
		return
	}
	text := "Functions for types that are sent or stored: " + strings.Join(does, "; ") + "."
	if has[appendElementFunc] || has[readElementFunc] {
		text += " …Element does the same for elements of lists and maps, which are messages with the value in field 1."
	}
	e.comment("%s", text)
	e.file.Line()
}
