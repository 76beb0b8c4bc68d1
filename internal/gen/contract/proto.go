package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptor describes a contract as a protobuf file of package pkg. For each kind it has a
// service, the state, the events, and the arguments and results of each method; then the value of
// each declared error type, and all messages that these use.
func Descriptor(c *Contract, pkg string) (*descriptorpb.FileDescriptorProto, error) {
	d := &describing{
		file:  &descriptorpb.FileDescriptorProto{Name: proto.String(pkg + ".proto"), Package: proto.String(pkg), Syntax: proto.String("proto3")},
		names: make(map[string]string), taken: make(map[string]bool), made: make(map[string]bool),
		circles: make(map[string]string),
	}
	for _, m := range c.Messages {
		d.nameOf(m.Name)
		if m.Is != "" {
			d.circles[m.Name] = m.Is
		}
	}
	for _, k := range c.Kinds {
		if !k.Retired {
			d.kind(k)
		}
	}
	for _, m := range c.Messages {
		switch {
		case m.Oneof:
			d.oneof(d.nameOf(m.Name), m.Fields)
		case m.Is == "":
			d.message(d.nameOf(m.Name), m.Fields)
		}
	}
	for _, e := range c.Errors {
		if e.Type != "" && !e.Retired {
			d.message(d.pick(title(e.Name)+"Error"), []*Field{{Number: 1, Name: "value", Type: e.Type}})
		}
	}
	slices.Sort(d.file.Dependency)
	d.file.Dependency = slices.Compact(d.file.Dependency)
	if d.err != nil {
		return nil, fmt.Errorf("describe contract: %w", d.err)
	}
	return d.file, nil
}

type describing struct {
	file  *descriptorpb.FileDescriptorProto
	names map[string]string // of messages, by their names in the contract
	taken map[string]bool
	made  map[string]bool // messages that wrap elements
	// circles has the notation, by name, of types that contain themselves and are not structs.
	circles map[string]string
	err     error
}

func (d *describing) kind(k *Kind) {
	if len(k.State) > 0 {
		d.message(d.pick(title(k.Name)+"State"), k.State)
	}
	if len(k.Events) > 0 {
		d.message(d.pick(title(k.Name)+"Event"), k.Events)
	}
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String(d.pick(title(k.Name) + "Service"))}
	for _, m := range k.Methods {
		if m.Retired {
			continue
		}
		args, reply := d.pick(title(k.Name)+m.Name+"Args"), d.pick(title(k.Name)+m.Name+"Reply")
		d.message(args, m.Args)
		d.message(reply, m.Results)
		method := &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m.Wire), InputType: proto.String(d.full(args)), OutputType: proto.String(d.full(reply)),
		}
		if m.Read {
			method.Options = &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}
		}
		service.Method = append(service.Method, method)
	}
	if about := k.about(); about != "" {
		if d.file.SourceCodeInfo == nil {
			d.file.SourceCodeInfo = &descriptorpb.SourceCodeInfo{}
		}
		d.file.SourceCodeInfo.Location = append(d.file.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
			Path: []int32{servicesField, int32(len(d.file.Service))}, Span: []int32{0, 0, 0}, LeadingComments: proto.String(" " + about + "\n"),
		})
	}
	d.file.Service = append(d.file.Service, service)
}

const servicesField = 6

// about returns the comment of the kind's service, or "".
func (k *Kind) about() string {
	if !k.Durable {
		return ""
	}
	text := k.Name + " is durable."
	if k.Version > 1 {
		text += fmt.Sprintf(" Its state has version %d.", k.Version)
	}
	if k.TTL > 0 {
		text += fmt.Sprintf(" It expires %v after its last change.", time.Duration(k.TTL)*time.Minute)
	}
	if len(k.Events) > 0 {
		text += " It records events in a journal."
	}
	return text
}

func (d *describing) full(name string) string { return "." + d.file.GetPackage() + "." + name }

func (d *describing) pick(name string) string {
	for d.taken[name] {
		name += "_"
	}
	d.taken[name] = true
	return name
}

func (d *describing) nameOf(goName string) string {
	name, ok := d.names[goName]
	if !ok {
		name = d.pick(title(goName))
		d.names[goName] = name
	}
	return name
}

// title makes a message's name from a type: "example.com/other.Line" becomes OtherLine,
// "Page[Line]" becomes PageLine.
func title(t string) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(t, func(r rune) bool { return strings.ContainsRune("[]*,():", r) }) {
		part = part[strings.LastIndexByte(part, '/')+1:]
		for _, word := range strings.FieldsFunc(part, func(r rune) bool { return r == '.' || r == '-' || r == '_' || r == '{' || r == '}' }) {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	name := b.String()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "M" + name
	}
	return name
}

func (d *describing) message(name string, fields []*Field) {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	taken := make(map[string]bool)
	fields = slices.Clone(fields)
	slices.SortFunc(fields, func(a, b *Field) int { return cmp.Compare(a.Number, b.Number) })
	for _, f := range fields {
		if f.Retired {
			m.ReservedRange = append(m.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{
				Start: proto.Int32(int32(f.Number)), End: proto.Int32(int32(f.Number + 1)),
			})
			continue
		}
		field := snake(f.Name)
		for taken[field] {
			field += "_"
		}
		taken[field] = true
		d.field(m, field, f.Number, f.Type)
	}
	d.file.MessageType = append(d.file.MessageType, m)
}

// oneof adds an interface's message: one field for each case, of which one is set.
func (d *describing) oneof(name string, cases []*Field) {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	cases = slices.Clone(cases)
	slices.SortFunc(cases, func(a, b *Field) int { return cmp.Compare(a.Number, b.Number) })
	taken := map[string]bool{oneofField: true}
	for _, c := range cases {
		if c.Retired {
			m.ReservedRange = append(m.ReservedRange, &descriptorpb.DescriptorProto_ReservedRange{
				Start: proto.Int32(int32(c.Number)), End: proto.Int32(int32(c.Number + 1)),
			})
			continue
		}
		field := snake(c.Name)
		for taken[field] {
			field += "_"
		}
		taken[field] = true
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(field), Number: proto.Int32(int32(c.Number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			OneofIndex: proto.Int32(0),
		}
		d.element(f, c.Type)
		m.Field = append(m.Field, f)
	}
	if len(m.Field) > 0 {
		m.OneofDecl = []*descriptorpb.OneofDescriptorProto{{Name: proto.String(oneofField)}}
	}
	d.file.MessageType = append(d.file.MessageType, m)
}

const oneofField = "value"

func snake(name string) string {
	var b strings.Builder
	upper := func(i int) bool { return i >= 0 && i < len(name) && name[i] >= 'A' && name[i] <= 'Z' }
	for i := range len(name) {
		c := name[i]
		if upper(i) {
			if i > 0 && name[i-1] != '_' && (!upper(i-1) || i+1 < len(name) && !upper(i+1) && name[i+1] != '_') {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		if c < 0x80 {
			b.WriteByte(c)
		} else {
			b.WriteString(strconv.FormatUint(uint64(c), 16))
		}
	}
	return b.String()
}

// parse is parseType, but resolves the names of types containing themselves.
func (d *describing) parse(t string) node {
	if is, ok := d.circles[t]; ok {
		t = is
	}
	return parseType(t)
}

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

// element sets f's type for one value of t. If t repeats or may be absent, f is a message around
// it.
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

// wrapper returns the message around values of type t, and adds it on the first call.
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

// protobuf sets f's type to a well-known message, or to bytes, whose encoding equals a message's.
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

// mapField makes f a map, or a list of entries for keys that protobuf does not allow.
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
