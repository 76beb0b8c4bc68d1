package contract

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type wellKnown struct{}

func (wellKnown) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (wellKnown) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// The paths under which the imported packages register their .proto files.
var (
	timestampFile = string(timestamppb.File_google_protobuf_timestamp_proto.Path())
	wrappersFile  = string(wrapperspb.File_google_protobuf_wrappers_proto.Path())
)

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

// scalar returns the protobuf scalar of t. A text form is a string, a binary form is bytes.
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

func packs(t string) bool {
	kind, ok := scalar(t)
	return ok && kind != descriptorpb.FieldDescriptorProto_TYPE_STRING && kind != descriptorpb.FieldDescriptorProto_TYPE_BYTES
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

func spell(t string) string {
	if n := parseType(t); n.op != 0 {
		return wrapperName(n)
	}
	return title(t)
}

// single returns t as optional, because a map entry contains even zeros.
func single(t string) string { return "*" + t }

func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.Split(name, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}
