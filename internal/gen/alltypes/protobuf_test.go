package alltypes

import (
	"context"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// descriptors returns the messages of the alltypes's contract, as the .proto file of shardgen describes
// them.
func descriptors(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	content, err := os.ReadFile(contract.FileName)
	if err != nil {
		t.Fatal(err)
	}
	c, problems := contract.Parse(content)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	file, err := contract.Descriptor(c, "allTypes")
	if err != nil {
		t.Fatal(err)
	}
	d, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// clearUnordered removes maps whose keys have no order in Go: their encoding is not the same each
// time.
func clearUnordered(z *AllTypes) {
	z.Maps.Bools, z.Maps.Addrs, z.promoted.Ports = nil, nil, nil
	z.texts.ByCode, z.texts.ByKey = nil, nil
}

// TestStateIsProtobuf checks that protobuf decodes the same values from an encoded state, and
// encodes the same bytes again.
func TestStateIsProtobuf(t *testing.T) {
	state := descriptors(t).Messages().ByName("AllTypesState")
	for seed := range uint64(300) {
		z := randomAllTypes(rand.New(rand.NewPCG(4, seed)), 5)
		clearUnordered(z)
		sameState(t, state, z)
	}
}

// sameState compares the encoded state of z with what protobuf makes of it.
func sameState(t *testing.T, d protoreflect.MessageDescriptor, z *AllTypes) {
	t.Helper()
	m := sameBytes(t, d, encodedState(z))
	for i, field := range stateOf(z) {
		if why := differsInField(m, i+1, reflect.ValueOf(field).Elem()); why != "" {
			t.Fatalf("%s%s", d.Name(), why)
		}
	}
}

func TestArgumentsAreProtobuf(t *testing.T) {
	d := descriptors(t)
	there := &capture{}
	ref := reflect.ValueOf(NewAllTypesClient(there).Ref(1))
	for i := range ref.NumMethod() {
		name := ref.Type().Method(i).Name
		args := d.Messages().ByName(protoreflect.Name("AllTypes" + name + "Args"))
		if !strings.HasPrefix(name, "Echo") && name != "Plain" {
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
					if m, ok := v.Interface().(Texts); ok {
						m.ByCode, m.ByKey = nil, nil
						v.Set(reflect.ValueOf(m))
					}
					if m, ok := v.Interface().(Promoted); ok {
						m.Ports = nil
						v.Set(reflect.ValueOf(m))
					}
					in = append(in, v)
				}
				if ref.Method(i).Type().IsVariadic() {
					ref.Method(i).CallSlice(in)
				} else {
					ref.Method(i).Call(in)
				}
				m := sameBytes(t, args, there.args)
				for j, v := range in[1:] {
					if why := differsInField(m, j+1, v); why != "" {
						t.Fatalf("seed %d: %s%s", seed, args.Name(), why)
					}
				}
			}
		})
	}
}

// sameBytes decodes b as a message, checks that the message encodes to the same bytes, and returns
// it.
func sameBytes(t *testing.T, d protoreflect.MessageDescriptor, b []byte) protoreflect.Message {
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
	return m
}

// checkKnown fails if a message has fields that its descriptor does not know.
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

// TestMerge checks that repeated fields in the input are merged as protobuf merges them: the last
// scalar wins, lists grow, messages merge, and map entries are replaced.
func TestMerge(t *testing.T) {
	d := descriptors(t)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(6, seed))
		one, two := randomAllTypes(r, 4), randomAllTypes(r, 4)
		for _, z := range []*AllTypes{one, two} {
			clearUnordered(z)
			z.Maps.Points = nil
			z.optional.Grid = nil // an array has no room to grow
			z.optional.Time = nil // the zero time cannot be told from none yet
		}
		merged(t, d, "AllTypesEchoMapsArgs", sentMaps(one.Maps), sentMaps(two.Maps), func(b []byte) ([]byte, error) {
			v, err := decodeAllTypesEchoMapsReply(codegen.NewDecoder(b))
			return sentMaps(v), err
		})
		merged(t, d, "AllTypesEchoTreeArgs", sentTree(one.tree), sentTree(two.tree), func(b []byte) ([]byte, error) {
			v, err := decodeAllTypesEchoTreeReply(codegen.NewDecoder(b))
			return sentTree(v), err
		})
		merged(t, d, "AllTypesEchoOptionalArgs", sentOptional(one.optional), sentOptional(two.optional), func(b []byte) ([]byte, error) {
			v, err := decodeAllTypesEchoOptionalReply(codegen.NewDecoder(b))
			return sentOptional(v), err
		})
	}
}

// sentMaps returns the encoded arguments of a call of EchoMaps, which are also its results.
func sentMaps(v Maps) []byte {
	return sent(func(r AllTypesRef) error { _, err := r.EchoMaps(context.Background(), v); return err })
}

func sentTree(v *Tree) []byte {
	return sent(func(r AllTypesRef) error { _, err := r.EchoTree(context.Background(), v); return err })
}

func sentOptional(v Optional) []byte {
	return sent(func(r AllTypesRef) error { _, err := r.EchoOptional(context.Background(), v); return err })
}

func sent(call func(AllTypesRef) error) []byte {
	var c capture
	if err := call(NewAllTypesClient(&c).Ref(1)); err != nil {
		panic(err)
	}
	return c.args
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// merged decodes the bytes of one followed by those of two, and compares the result with
// protobuf's.
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

// FuzzIsProtobuf does what TestStateIsProtobuf does, with values that the fuzzer makes from a seed.
func FuzzIsProtobuf(f *testing.F) {
	f.Add(uint64(1), 5)
	f.Fuzz(func(t *testing.T, seed uint64, depth int) {
		z := randomAllTypes(rand.New(rand.NewPCG(4, seed)), 1+int(uint(depth)%8))
		clearUnordered(z)
		sameState(t, descriptors(t).Messages().ByName("AllTypesState"), z)
	})
}
