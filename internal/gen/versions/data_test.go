package versions

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/shardgen/shardgen/internal/gen/contract"
	"github.com/shardgen/shardgen/internal/gen/versions/today"
	"github.com/shardgen/shardgen/internal/gen/versions/yesterday"
	"github.com/shardgen/shardgen/runtime/codegen"
)

// messageOf makes a message from JSON, as one version's .proto file describes it.
func messageOf(t *testing.T, version, name, text string) proto.Message {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(version, contract.FileName))
	if err != nil {
		t.Fatal(err)
	}
	c, problems := contract.Parse(content)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	file, err := contract.Descriptor(c, version)
	if err != nil {
		t.Fatal(err)
	}
	d, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d.Messages().ByName(protoreflect.Name(name)))
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A wire answers every call with the same bytes, and keeps the encoded arguments of the last call.
type wire struct{ args, reply []byte }

func (w *wire) ShardInvoker(codegen.Kind) codegen.Invoker { return w }

func (w *wire) Begin(context.Context, *codegen.Ref, string, bool) (codegen.Turn, error) {
	return codegen.Turn{}, nil
}

func (w *wire) Check(context.Context, *codegen.Ref, string) error { return nil }

func (w *wire) Do(_ context.Context, _ *codegen.Ref, _ string, args []byte) ([]byte, error) {
	w.args = args
	return w.reply, nil
}

func (w *wire) Send(_ context.Context, _ *codegen.Ref, _ string, args []byte) error {
	w.args = args
	return nil
}

func (*wire) Failed(_ *codegen.Ref, _ string, _ bool, err error) error { return err }

func (w *wire) Hash(string) (uint64, error) { return 0, nil }

func (*wire) Refs() *codegen.RefCache         { return nil }
func (w *wire) yesterday() yesterday.StockRef { return yesterday.NewStockClient(w).Ref("x") }

func (w *wire) today() today.StockRef { return today.NewStockClient(w).Ref("x") }

func (w *wire) linesYesterday() ([]yesterday.Line, error) {
	return w.yesterday().Orders(context.Background())
}

func (w *wire) linesToday() ([]today.Line, error) { return w.today().Orders(context.Background()) }

func (w *wire) reserve(l yesterday.Line) error {
	_, err := w.yesterday().Reserve(context.Background(), "o", l)
	return err
}

func (w *wire) take(by string, l today.Line) error {
	_, _, err := w.today().Take(context.Background(), by, "o", l)
	return err
}

func (w *wire) restockYesterday(n int32) error { return w.yesterday().Restock(context.Background(), n) }

func (w *wire) restockToday(n *int64) error { return w.today().Restock(context.Background(), n) }

// TestRead checks what each version's code decodes from the other version's data.
func TestRead(t *testing.T) {
	taken := func(w *wire) (any, error) {
		by, left, err := w.today().Take(context.Background(), "", "", today.Line{})
		return [2]any{by, left}, err
	}
	reserved := func(w *wire) (any, error) {
		return w.yesterday().Reserve(context.Background(), "", yesterday.Line{})
	}
	oldLines := func(w *wire) (any, error) { return w.linesYesterday() }
	newLines := func(w *wire) (any, error) { return w.linesToday() }
	for _, tt := range []struct {
		name          string
		writer        string // the version that wrote the data
		message, data string
		read          func(w *wire) (any, error) // by the code of the other version
		want          any                        // nil: it is refused
	}{
		{"a field that is renamed", "yesterday", "StockOrdersReply", `{"result1": [{"sku": "tea"}]}`, newLines, []today.Line{{Article: "tea"}}},
		{"a field that is gone", "yesterday", "StockOrdersReply", `{"result1": [{"note": "soon"}]}`, newLines, []today.Line{{}}},
		{"a field that is wider", "yesterday", "StockOrdersReply", `{"result1": [{"count": -1}]}`, newLines, []today.Line{{Count: -1}}},
		{"nothing", "yesterday", "StockOrdersReply", `{}`, newLines, []today.Line(nil)},
		{"a result that is there no more at its place", "yesterday", "StockReserveReply", `{"left": 3}`, taken, [2]any{"", int64(3)}},

		{"a field that is not known", "today", "StockOrdersReply", `{"result1": [{"gift": true, "article": "tea"}]}`, oldLines, []yesterday.Line{{SKU: "tea"}}},
		{"a number that fits", "today", "StockOrdersReply", `{"result1": [{"count": 2147483647}]}`, oldLines, []yesterday.Line{{Count: 2147483647}}},
		{"a number that does not fit", "today", "StockOrdersReply", `{"result1": [{"count": 2147483648}]}`, oldLines, nil},
		{"a result that is not known", "today", "StockTakeReply", `{"left": 3, "by2": "ann"}`, reserved, int32(3)},
	} {
		b, err := proto.Marshal(messageOf(t, tt.writer, tt.message, tt.data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := tt.read(&wire{reply: b})
		var refused *codegen.DecodeError
		switch {
		case tt.want == nil && !errors.As(err, &refused):
			t.Errorf("%s's %s, %s: got %+v, %v; want a DecodeError", tt.writer, tt.data, tt.name, got, err)
		case tt.want != nil && (err != nil || !reflect.DeepEqual(got, tt.want)):
			t.Errorf("%s's %s, %s: got %+v, %v; want %+v", tt.writer, tt.data, tt.name, got, err, tt.want)
		}
	}
}

// TestWritten checks what each version's code encodes, by decoding it with the other version's
// .proto file.
func TestWritten(t *testing.T) {
	five, zero := int64(5), int64(0)
	for _, tt := range []struct {
		name                  string
		write                 func(w *wire) error
		reader, message, want string
	}{
		{"yesterday's line", func(w *wire) error { return w.reserve(yesterday.Line{SKU: "tea", Count: 2, Note: "soon"}) }, "today", "StockTakeArgs", `{"order": "o", "line": {"article": "tea", "count": 2}}`},
		{"today's line", func(w *wire) error { return w.take("ann", today.Line{Gift: true, Article: "tea", Count: 2}) }, "yesterday", "StockReserveArgs", `{"order": "o", "line": {"sku": "tea", "count": 2}}`},
		{"yesterday's number", func(w *wire) error { return w.restockYesterday(5) }, "today", "StockRestockArgs", `{"n": 5}`},
		{"yesterday's zero is today's absence", func(w *wire) error { return w.restockYesterday(0) }, "today", "StockRestockArgs", `{}`},
		{"today's number", func(w *wire) error { return w.restockToday(&five) }, "yesterday", "StockRestockArgs", `{"n": 5}`},
		{"today's zero", func(w *wire) error { return w.restockToday(&zero) }, "yesterday", "StockRestockArgs", `{"n": 0}`},
		{"today's absence", func(w *wire) error { return w.restockToday(nil) }, "yesterday", "StockRestockArgs", `{}`},
	} {
		var w wire
		if err := tt.write(&w); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		want := messageOf(t, tt.reader, tt.message, tt.want)
		got := want.ProtoReflect().New().Interface()
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(w.args, got); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s: %s reads %v, want %v", tt.name, tt.reader, got, want)
		}
	}
}
