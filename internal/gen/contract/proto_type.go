package contract

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// wellKnown finds the files that a descriptor may import.
type wellKnown struct{}

func (wellKnown) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (wellKnown) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// The files of these are imported here so that they are registered.
var (
	timestampFile = string(timestamppb.File_google_protobuf_timestamp_proto.Path())
	wrappersFile  = string(wrapperspb.File_google_protobuf_wrappers_proto.Path())
)

// A node is a type of the contract's notation.
type node struct {
	op   byte // 's' slice, 'a' array, 'm' map, 'p' pointer, 0 a name
	name string
	key  string
	elem string
}

func parseType(t string) node {
	switch {
	case strings.HasPrefix(t, "*"):
		return node{op: 'p', elem: t[1:]}
	case strings.HasPrefix(t, "[]"):
		return node{op: 's', elem: t[2:]}
	case strings.HasPrefix(t, "map["):
		end := closing(t, len("map"))
		return node{op: 'm', key: t[len("map["):end], elem: t[end+1:]}
	case strings.HasPrefix(t, "["):
		end := closing(t, 0)
		if t[end+1:] == "byte" {
			return node{name: "bytes"}
		}
		return node{op: 'a', name: t[1:end], elem: t[end+1:]}
	}
	return node{name: t}
}

// parse is parseType with the types that contain themselves.
func (d *describing) parse(t string) node {
	if is, ok := d.circles[t]; ok {
		t = is
	}
	return parseType(t)
}

// closing is the index of the bracket that closes the one at i.
func closing(t string, i int) int {
	depth := 0
	for j := i; j < len(t); j++ {
		switch t[j] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return len(t) - 1
}

var scalars = map[string]descriptorpb.FieldDescriptorProto_Type{
	"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"int8": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int16": descriptorpb.FieldDescriptorProto_TYPE_INT32,
	"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint8": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint16": descriptorpb.FieldDescriptorProto_TYPE_UINT32,
	"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"float32": descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "float64": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	"string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"bytes":  descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// scalar is the protobuf name of a type that protobuf has. Text is a string there, and
// a binary form is bytes.
func scalar(t string) (kind descriptorpb.FieldDescriptorProto_Type, ok bool) {
	switch {
	case strings.HasPrefix(t, "text:"):
		t = "string"
	case strings.HasPrefix(t, "binary:"):
		t = "bytes"
	}
	kind, ok = scalars[t]
	return kind, ok
}

// packs reports whether a list of the type is packed.
func packs(t string) bool {
	kind, ok := scalar(t)
	return ok && kind != descriptorpb.FieldDescriptorProto_TYPE_STRING && kind != descriptorpb.FieldDescriptorProto_TYPE_BYTES
}

// field adds a field of a type, as the generated append function of that type writes
// it.
func (d *describing) field(m *descriptorpb.DescriptorProto, name string, number int, t string) {
	f := &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(int32(number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	n := d.parse(t)
	switch {
	case n.op == 's', n.op == 'a' && packs(n.elem):
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		d.element(f, n.elem)
	case n.op == 'm':
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		d.mapField(m, f, n)
	case n.op == 'p':
		d.element(f, n.elem)
		if f.GetType() != descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			f.Proto3Optional = proto.Bool(true)
			f.OneofIndex = proto.Int32(int32(len(m.OneofDecl)))
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + name)})
		}
	default:
		d.element(f, t)
	}
	m.Field = append(m.Field, f)
}

// element sets the type of exactly one value. A type that repeats or may be absent
// becomes a message with the value in field 1.
func (d *describing) element(f *descriptorpb.FieldDescriptorProto, t string) {
	n := d.parse(t)
	if n.op == 0 {
		d.named(f, n.name)
		return
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	name := d.wrapper(t, n)
	f.TypeName = proto.String(d.full(name))
}

// wrapper is the message around an element.
func (d *describing) wrapper(t string, n node) string {
	name, ok := d.names[t]
	if !ok {
		name = d.pick(wrapperName(n))
		d.names[t] = name
	}
	if d.made[t] {
		return name
	}
	d.made[t] = true
	inner := t
	if n.op == 'a' {
		inner = "[]" + n.elem // an array is such a message by itself
	}
	d.message(name, []*Field{{Number: 1, Name: "value", Type: inner}})
	return name
}

func wrapperName(n node) string {
	switch n.op {
	case 's':
		return spell(n.elem) + "List"
	case 'a':
		return spell(n.elem) + "Array" + n.name
	case 'm':
		return spell(n.key) + spell(n.elem) + "Map"
	}
	return "Optional" + spell(n.elem)
}

// spell makes part of a message's name from a type.
func spell(t string) string {
	if n := parseType(t); n.op != 0 {
		return wrapperName(n)
	}
	return title(t)
}

// named sets a type that has a name.
func (d *describing) named(f *descriptorpb.FieldDescriptorProto, name string) {
	if kind, ok := scalar(name); ok {
		f.Type = kind.Enum()
		return
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	if name == "time" {
		f.TypeName = proto.String(".google.protobuf.Timestamp")
		d.file.Dependency = append(d.file.Dependency, timestampFile)
		return
	}
	if path, isProto := strings.CutPrefix(name, "proto("); isProto {
		d.protobuf(f, strings.TrimSuffix(path, ")"))
		return
	}
	if name == "struct{}" && d.names[name] == "" {
		d.message(d.nameOf(name), nil)
	}
	if d.names[name] == "" && d.err == nil {
		d.err = fmt.Errorf("%s: not in the contract", name)
	}
	f.TypeName = proto.String(d.full(d.names[name]))
}

// protobuf sets a generated protobuf message: a well-known one by its name, any
// other as its bytes, which look the same on the wire.
func (d *describing) protobuf(f *descriptorpb.FieldDescriptorProto, goName string) {
	const known = "google.golang.org/protobuf/types/known/"
	short, ok := strings.CutPrefix(goName, known)
	pkg, message, _ := strings.Cut(short, ".")
	if ok && (pkg == "wrapperspb" || pkg == "timestamppb") {
		f.TypeName = proto.String(".google.protobuf." + message)
		file := timestampFile
		if pkg == "wrapperspb" {
			file = wrappersFile
		}
		d.file.Dependency = append(d.file.Dependency, file)
		return
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum()
}

// mapField makes a field a map, or a list of entries where protobuf has no map
// with such keys.
func (d *describing) mapField(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto, n node) {
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	key, isScalar := scalar(n.key)
	switch {
	case !isScalar, key == descriptorpb.FieldDescriptorProto_TYPE_BYTES,
		key == descriptorpb.FieldDescriptorProto_TYPE_FLOAT, key == descriptorpb.FieldDescriptorProto_TYPE_DOUBLE:
		name := spell(n.key) + spell(n.elem) + "Entry"
		if at := "entry " + n.key + " " + n.elem; !d.made[at] {
			d.made[at] = true
			d.names[at] = d.pick(name)
			d.message(d.names[at], []*Field{{Number: 1, Name: "key", Type: single(n.key)}, {Number: 2, Name: "value", Type: single(n.elem)}})
		}
		f.TypeName = proto.String(d.full(d.names["entry "+n.key+" "+n.elem]))
		return
	}
	entry := &descriptorpb.DescriptorProto{
		Name: proto.String(camel(f.GetName()) + "Entry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
	}
	for i, part := range []struct{ name, of string }{{"key", n.key}, {"value", n.elem}} {
		pf := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(part.name), Number: proto.Int32(int32(i + 1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		d.element(pf, part.of)
		entry.Field = append(entry.Field, pf)
	}
	m.NestedType = append(m.NestedType, entry)
	f.TypeName = proto.String(d.full(m.GetName()) + "." + entry.GetName())
}

// single makes a type of an entry one element, which is written also when it is
// zero.
func single(t string) string { return "*" + t }

// camel is a field's name as protobuf names its entry: "by_name" is ByName.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
