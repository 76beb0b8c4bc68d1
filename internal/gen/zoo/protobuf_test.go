package zoo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// messages says what the zoo's types are on the wire, as a .proto file would:
// the types of each message's fields, numbered from 1. A * is repeated, a ?
// optional, K>V a map.
const messages = `
State: Scalars Lists Maps Optional Tree string>double Timestamp

Scalars: bool int64 int32 int32 int32 int64 uint64 uint32 uint32 uint32 uint64 float double string int32 bool int32 uint32 string int64

Lists: bytes bytes bool* int64* int32* uint32* float* double* string* string* uint32* bytes* int64* Timestamp* Scalars*
	OptionalScalars* OptionalInt* Ints* Deeper* StringIntMap* StringValue* bytes* OptionalString* IntsList bytes
	Strings ScalarsList StringsList StringBoolMaps

Maps: int64>string bool>int64 uint32>float string>double string>Scalars string>OptionalScalars string>Strings string>StringIntMap
	string>bytes int64>Timestamp int64>Ints string>Empty PointEntry* string>int64 string>Int64Value

Optional: bool? int32? string? Timestamp bytes? Scalars Strings StringDoubleMap bytes? Ints OptionalInt string? StringValue

Others: Timestamp string string string bytes StringValue
Tree: string Tree* Tree string>OptionalTree
Forest: Forest*
Page: Point* Point Page
Embedding: Point Scalars string string*
Plain: int64 uint32 bool double uint32

Point: int64 int64
PointEntry: Point string?
Empty:
Timestamp: int64 int32
StringValue: string
Int64Value: int64
OptionalScalars: Scalars
OptionalTree: Tree
OptionalInt: int64?
OptionalString: string?
Ints: int64*
IntsList: Ints*
Strings: string*
StringsList: Strings*
Deeper: Strings*
ScalarsList: Scalars*
StringIntMap: string>int64
StringBoolMap: string>bool
StringBoolMaps: StringBoolMap*
StringDoubleMap: string>double

ScalarsArgs: Scalars
ListsArgs: Lists
MapsArgs: Maps
OptionalArgs: Optional
OthersArgs: Others
TreeArgs: Tree
PageArgs: Page
EmbeddingArgs: Embedding
BareArgs: string>Ints bytes* int64? Timestamp StringValue string*
`

// descriptors reads messages into protobuf's own form.
func descriptors(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("zoo.proto"), Package: proto.String("zoo"), Syntax: proto.String("proto3")}
	for _, paragraph := range strings.Split(strings.ReplaceAll(messages, "\n\t", " "), "\n") {
		name, fields, ok := strings.Cut(paragraph, ":")
		if !ok {
			continue
		}
		m := &descriptorpb.DescriptorProto{Name: &name}
		for i, typ := range strings.Fields(fields) {
			addField(m, int32(i+1), typ)
		}
		file.MessageType = append(file.MessageType, m)
	}
	d, err := protodesc.NewFile(file, new(protoregistry.Files))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var scalarTypes = map[string]descriptorpb.FieldDescriptorProto_Type{
	"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL, "string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
	"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"float": descriptorpb.FieldDescriptorProto_TYPE_FLOAT, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

func addField(m *descriptorpb.DescriptorProto, number int32, typ string) {
	name := fmt.Sprintf("f%d", number)
	f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	m.Field = append(m.Field, f)
	if key, value, ok := strings.Cut(typ, ">"); ok {
		entry := &descriptorpb.DescriptorProto{
			Name: proto.String(fmt.Sprintf("F%dEntry", number)), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		}
		addField(entry, 1, key)
		addField(entry, 2, value)
		entry.Field[0].Name, entry.Field[1].Name = proto.String("key"), proto.String("value")
		m.NestedType = append(m.NestedType, entry)
		typ = m.GetName() + "." + entry.GetName() + "*"
	}
	if strings.HasSuffix(typ, "*") {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if strings.HasSuffix(typ, "?") {
		f.Proto3Optional = proto.Bool(true)
		f.OneofIndex = proto.Int32(int32(len(m.OneofDecl)))
		m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + name)})
	}
	typ = strings.TrimRight(typ, "*?")
	if scalar, ok := scalarTypes[typ]; ok {
		f.Type = scalar.Enum()
		return
	}
	f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	f.TypeName = proto.String(".zoo." + typ)
}

// unordered maps have keys that Go cannot compare for order.
func clearUnordered(z *Zoo) { z.Maps.Bools, z.Maps.Addrs = nil, nil }

// TestStateIsProtobuf checks that protobuf reads the same values from the bytes
// and writes the same bytes from the values.
func TestStateIsProtobuf(t *testing.T) {
	state := descriptors(t).Messages().ByName("State")
	for seed := range uint64(300) {
		z := randomZoo(rand.New(rand.NewPCG(4, seed)), 5)
		clearUnordered(z)
		sameBytes(t, state, encodedState(z))
	}
}

func TestArgumentsAreProtobuf(t *testing.T) {
	d := descriptors(t)
	there := &capture{}
	ref := reflect.ValueOf(NewZooClient(there).Ref(1))
	for i := range ref.NumMethod() {
		name := ref.Type().Method(i).Name
		args := d.Messages().ByName(protoreflect.Name(strings.TrimPrefix(name, "Echo") + "Args"))
		switch name {
		case "Plain":
			args = d.Messages().ByName("Plain")
		case "EchoForest":
			args = d.Messages().ByName("Forest")
		case "Fail":
			continue
		}
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(100) {
				r := rand.New(rand.NewPCG(5, seed))
				in := []reflect.Value{reflect.ValueOf(context.Background())}
				for j := 1; j < ref.Method(i).Type().NumIn(); j++ {
					v := reflect.New(ref.Method(i).Type().In(j)).Elem()
					random(r, v, 5)
					if m, ok := v.Interface().(Maps); ok {
						m.Bools, m.Addrs = nil, nil
						v.Set(reflect.ValueOf(m))
					}
					in = append(in, v)
				}
				if ref.Method(i).Type().IsVariadic() {
					ref.Method(i).CallSlice(in)
				} else {
					ref.Method(i).Call(in)
				}
				sameBytes(t, args, there.args)
			}
		})
	}
}

// sameBytes reads b as a message and writes it again.
func sameBytes(t *testing.T, d protoreflect.MessageDescriptor, b []byte) {
	t.Helper()
	m := dynamicpb.NewMessage(d)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	checkKnown(t, m)
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(b) {
		t.Fatalf("%s:\ngot  %x\nwant %x", d.Name(), b, again)
	}
}

// checkKnown fails on fields that protobuf does not know.
func checkKnown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Fatalf("%s has unknown fields %x", m.Descriptor().Name(), m.GetUnknown())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { checkKnown(t, v.Message()); return true })
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				checkKnown(t, v.List().Get(i).Message())
			}
		case !f.IsMap() && !f.IsList() && f.Message() != nil:
			checkKnown(t, v.Message())
		}
		return true
	})
}

// TestMerge: what comes twice is merged as protobuf merges it: the last scalar
// wins, lists grow, messages merge, map entries are replaced.
func TestMerge(t *testing.T) {
	d := descriptors(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(6, seed))
		one, two := randomZoo(r, 4), randomZoo(r, 4)
		for _, z := range []*Zoo{one, two} {
			clearUnordered(z)
			z.Maps.Points = nil
			z.optional.Grid = nil // an array has no room to grow
			z.optional.Time = nil // the zero time cannot be told from none yet
		}
		merged(t, d, "MapsArgs", must(appendZooEchoMapsArgs(nil, one.Maps)), must(appendZooEchoMapsArgs(nil, two.Maps)), func(b []byte) ([]byte, error) {
			v, err := decodeZooEchoMapsArgs(b)
			return must(appendZooEchoMapsArgs(nil, v)), err
		})
		merged(t, d, "TreeArgs", must(appendZooEchoTreeArgs(nil, one.tree)), must(appendZooEchoTreeArgs(nil, two.tree)), func(b []byte) ([]byte, error) {
			v, err := decodeZooEchoTreeArgs(b)
			return must(appendZooEchoTreeArgs(nil, v)), err
		})
		merged(t, d, "OptionalArgs", must(appendZooEchoOptionalArgs(nil, one.optional)), must(appendZooEchoOptionalArgs(nil, two.optional)), func(b []byte) ([]byte, error) {
			v, err := decodeZooEchoOptionalArgs(b)
			return must(appendZooEchoOptionalArgs(nil, v)), err
		})
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// merged compares what one and two together decode to with what protobuf makes of
// them.
func merged(t *testing.T, d protoreflect.FileDescriptor, name protoreflect.Name, one, two []byte, again func([]byte) ([]byte, error)) {
	t.Helper()
	both := append(one[:len(one):len(one)], two...)
	m := dynamicpb.NewMessage(d.Messages().ByName(name))
	if err := proto.Unmarshal(both, m); err != nil {
		t.Fatal(err)
	}
	want, err := again(must(proto.MarshalOptions{Deterministic: true}.Marshal(m)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := again(both)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Fatalf("%s: %x and %x merge to\ngot  %x\nwant %x", name, one, two, got, want)
	}
}
