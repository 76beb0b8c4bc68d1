package contract

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

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
	about := make(map[int32]string)
	for _, l := range file.GetSourceCodeInfo().GetLocation() {
		if path := l.GetPath(); len(path) == 2 && path[0] == servicesField {
			about[path[1]] = strings.TrimSuffix(l.GetLeadingComments(), "\n")
		}
	}
	for i, s := range file.GetService() {
		p.line("")
		if text := about[int32(i)]; text != "" {
			p.line("//%s", text)
		}
		p.line("service %s {", s.GetName())
		for _, m := range s.GetMethod() {
			end := ";"
			if m.GetOptions().GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
				end = " { option idempotency_level = NO_SIDE_EFFECTS; }"
			}
			p.line("  rpc %s(%s) returns (%s)%s", m.GetName(), p.short(m.GetInputType()), p.short(m.GetOutputType()), end)
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
