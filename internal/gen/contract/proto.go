package contract

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Descriptor returns a contract as a protobuf file: the arguments and the results of
// each message of a kind, the state and a service for each kind, the value of each
// declared error that is a type, and all messages that these use. Pkg is the protobuf
// package.
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

// describing makes one descriptor.
type describing struct {
	file  *descriptorpb.FileDescriptorProto
	names map[string]string // of messages, by their names in the contract
	taken map[string]bool
	made  map[string]bool // messages around elements
	// circles are the types that contain themselves and are not structs.
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
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m.Wire), InputType: proto.String(d.full(args)), OutputType: proto.String(d.full(reply)),
		})
	}
	d.file.Service = append(d.file.Service, service)
}

func (d *describing) full(name string) string { return "." + d.file.GetPackage() + "." + name }

// pick returns an unused name for a message.
func (d *describing) pick(name string) string {
	for d.taken[name] {
		name += "_"
	}
	d.taken[name] = true
	return name
}

// nameOf is the message of a struct.
func (d *describing) nameOf(goName string) string {
	name, ok := d.names[goName]
	if !ok {
		name = d.pick(title(goName))
		d.names[goName] = name
	}
	return name
}

// title makes the name of a message from a Go type: "example.com/other.Line" is
// OtherLine, and "Page[Line]" is PageLine.
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

// message adds a message with the fields of a list.
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

// oneof adds a message of which one field is set.
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

// oneofField is the name of the choice in a message of [describing.oneof].
const oneofField = "value"

// snake is a field's name as protobuf writes names: "OrderID" is order_id.
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

// Text prints a descriptor as a .proto file.
func Text(file *descriptorpb.FileDescriptorProto) (string, error) {
	// A definition that protobuf itself does not accept must not be printed.
	if _, err := protodesc.NewFile(file, wellKnown{}); err != nil {
		return "", fmt.Errorf("describe contract: %w", err)
	}
	p := &printer{pkg: file.GetPackage()}
	p.line("// Written by shardgen from %s: the messages of package %s as they are on the wire.", FileName, file.GetPackage())
	p.line("syntax = \"proto3\";")
	p.line("")
	p.line("package %s;", file.GetPackage())
	for i, dependency := range file.GetDependency() {
		if i == 0 {
			p.line("")
		}
		p.line("import %q;", dependency)
	}
	for _, s := range file.GetService() {
		p.line("")
		p.line("service %s {", s.GetName())
		for _, m := range s.GetMethod() {
			p.line("  rpc %s(%s) returns (%s);", m.GetName(), p.short(m.GetInputType()), p.short(m.GetOutputType()))
		}
		p.line("}")
	}
	for _, m := range file.GetMessageType() {
		p.line("")
		p.message(m)
	}
	return p.b.String(), nil
}

type printer struct {
	pkg string
	b   strings.Builder
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }

// short drops the file's own package from a name.
func (p *printer) short(name string) string {
	if own, ok := strings.CutPrefix(name, "."+p.pkg+"."); ok {
		return own
	}
	return strings.TrimPrefix(name, ".")
}

func (p *printer) message(m *descriptorpb.DescriptorProto) {
	if len(m.GetField())+len(m.GetReservedRange()) == 0 {
		p.line("message %s {}", m.GetName())
		return
	}
	p.line("message %s {", m.GetName())
	for _, r := range m.GetReservedRange() {
		p.line("  reserved %d;", r.GetStart())
	}
	if choice := m.GetOneofDecl(); len(choice) == 1 && choice[0].GetName() == oneofField {
		p.line("  oneof %s {", oneofField)
		for _, f := range m.GetField() {
			p.line("    %s %s = %d;", p.typeOf(m, f), f.GetName(), f.GetNumber())
		}
		p.line("  }")
		p.line("}")
		return
	}
	for _, f := range m.GetField() {
		p.line("  %s%s %s = %d;", label(m, f), p.typeOf(m, f), f.GetName(), f.GetNumber())
	}
	p.line("}")
}

func label(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) string {
	switch {
	case f.GetProto3Optional():
		return "optional "
	case f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED && entryOf(m, f) == nil:
		return "repeated "
	}
	return ""
}

// entryOf is the entry of a map field, or nil.
func entryOf(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	for _, n := range m.GetNestedType() {
		if n.GetOptions().GetMapEntry() && strings.HasSuffix(f.GetTypeName(), "."+m.GetName()+"."+n.GetName()) {
			return n
		}
	}
	return nil
}

func (p *printer) typeOf(m *descriptorpb.DescriptorProto, f *descriptorpb.FieldDescriptorProto) string {
	if e := entryOf(m, f); e != nil {
		return "map<" + p.typeOf(m, e.GetField()[0]) + ", " + p.typeOf(m, e.GetField()[1]) + ">"
	}
	if f.GetType() == descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
		return p.short(f.GetTypeName())
	}
	return strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
}
