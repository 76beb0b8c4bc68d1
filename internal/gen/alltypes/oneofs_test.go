package alltypes

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/shardgen/shardgen/runtime/codegen"
)

// TestWhatIsNoCaseIsRefused checks that local and remote calls refuse a value that the receiver
// could not distinguish from another, such as one that is no case.
func TestWhatIsNoCaseIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		v    Shape
		want string
	}{
		"pointer where the case is a value": {&Circle{}, "*alltypes.Circle is not a case of this interface"},
		"nil pointer":                       {(*Square)(nil), "a nil *alltypes.Square"},
		"of another package":                {struct{ Shape }{Dot{}}, "is not a case of this interface"},
		"unknown":                           {unknownShape{}, "this program does not know case"},
		"inside":                            {Sum{Left: Group{nil, (*Grid)(nil)}}, "a nil *alltypes.Grid"},
	} {
		for _, c := range []codegen.Caller{&local{alltypes: &AllTypes{}}, &remote{alltypes: &AllTypes{}}} {
			if _, _, err := NewAllTypesClient(c).Ref(1).EchoShapes(context.Background(), tt.v); err == nil || name != "unknown" && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%T: %s: got %v, want an error with %q", c, name, err, tt.want)
			}
		}
	}
}

// newer returns the encoded state of a newer program: a shape, and an element of a list of shapes,
// are cases that this program does not know. field is the encoding of one of them.
func newer() (state, field []byte) {
	field = protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "pentagon")
	state = protowire.AppendTag(nil, 15, protowire.BytesType)
	state = protowire.AppendBytes(state, field)
	list := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), field)
	state = protowire.AppendTag(state, 14, protowire.BytesType)
	return protowire.AppendBytes(state, list), field
}

// TestUnknownCasesAreKeptInState checks that a program writes unknown cases back into state as it
// read them, also in elements.
func TestUnknownCasesAreKeptInState(t *testing.T) {
	state, field := newer()
	z := &AllTypes{}
	if skipped, err := decodeAllTypesState(z, state); err != nil || skipped {
		t.Fatalf("got skipped=%v, %v, want all kept", skipped, err)
	}
	for what, v := range map[string]Shape{"shape": z.shape, "element": z.oneofs.Shapes[0]} {
		if _, ok := v.(unknownShape); !ok {
			t.Errorf("%s: got %T, want a case that is not known", what, v)
		}
	}
	again := &AllTypes{}
	if _, err := decodeAllTypesState(again, encodedState(z)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.shape, z.shape) || !reflect.DeepEqual(again.oneofs, z.oneofs) {
		t.Errorf("encoded again: got %#v, want %#v", again.shape, z.shape)
	}
	if b := encodedState(&AllTypes{shape: z.shape}); !strings.Contains(string(b), string(field)) {
		t.Errorf("got %x, want %x in it", b, field)
	}
	z.shape = Dot{} // the program sets the field, so the unknown case is gone
	if b := encodedState(&AllTypes{shape: z.shape}); strings.Contains(string(b), string(field)) {
		t.Errorf("got %x, with what was replaced", b)
	}
}

// TestUnknownCasesAreRefusedInMessages checks that a call with an unknown case is refused: the
// method would run with less than the caller passed.
func TestUnknownCasesAreRefusedInMessages(t *testing.T) {
	_, field := newer()
	args := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), field)
	_, err := dispatchAllTypesEchoShapes(context.Background(), &AllTypes{}, args, nil)
	var refused *codegen.DecodeError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "alltypes.Shape: this program does not know case 99") {
		t.Errorf("got %v, want a DecodeError about case 99", err)
	}
}

// TestOneofsInJSON checks that JSON that was written can be read, and that the error for an unknown
// case lists the known cases.
func TestOneofsInJSON(t *testing.T) {
	call := func(args string) (string, error) {
		b, err := NewCageClient(&remote{alltypes: &AllTypes{}}).CallRaw(context.Background(), codegen.Raw{
			Method: "EchoOneofs", ID: "1", ContentType: codegen.ContentJSON, Body: []byte(args),
		})
		return string(b), err
	}
	for args, want := range map[string]string{
		`{"v":{"Shape":{"Square":{"Side":"a"}}}}`:                                                                      `"Shape":{"Square":{"Side":"a"}}`,
		`{"v":{"Shape":{"square":{"Side":"a"}}}}`:                                                                      `"Shape":{"Square":{"Side":"a"}}`,
		`{"v":{"Shape":null}}`:                                                                                         `"Shape":null`,
		`{"v":{"Shapes":[{"Dot":{}},null,{"Word":"w"}]}}`:                                                              `"Shapes":[{"Dot":{}},null,{"Word":"w"}]`,
		`{"v":{"Shape":{"Sum":{"Left":{"Group":[{"Dot":{}}]},"Right":{"Grid":[1,2]}}}}}`:                               `"Shape":{"Sum":{"Left":{"Group":[{"Dot":{}}]},"Right":{"Grid":[1,2]}}}`,
		`{"v":{"ByName":{"a":{"Index":{"b":{"Word":"w"}}}}}}`:                                                          `"ByName":{"a":{"Index":{"b":{"Word":"w"}}}}`,
		`{"v":{"Any":{"int64":5},"Anys":[{"StringValue":"s"},{"bool":true},{"PagePoint":{"Items":[{"X":1,"Y":2}]}}]}}`: `"Anys":[{"StringValue":"s"},{"bool":true},{"PagePoint":{"Items":[{"X":1,"Y":2}]`,
		`{"v":{"Frame":{"Shape":{"Seal":"code"},"Width":3},"Pointer":{"Dot":{}}}}`:                                     `"Frame":{"Width":3,"Shape":{"Seal":"code"}}`,
	} {
		if got, err := call(args); err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: got %s, %v, want %s in it", args, got, err, want)
		}
	}
	for args, want := range map[string]string{
		`{"v":{"Shape":{"Oval":{}}}}`:                  `unknown case "Oval" (there are: Circle, Dot,`,
		`{"v":{"Shape":{"Dot":{},"Word":"w"}}}`:        "want null or an object with one member",
		`{"v":{"Shape":"Dot"}}`:                        "want null or an object with one member",
		`{"v":{"Shape":{"Square":null}}}`:              "Square: the case is null",
		`{"v":{"Shapes":[{"Circle":{"Radius":"x"}}]}}`: "[0]: Circle: json: cannot unmarshal",
	} {
		if got, err := call(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, %v, want an error with %s", args, got, err, want)
		}
	}
}
