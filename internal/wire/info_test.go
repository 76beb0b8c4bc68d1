package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/shardgen/shardgen/internal/wire/framepb"
)

// TestInfo: a written Info reads back as the same, and agrees with the .proto file.
func TestInfo(t *testing.T) {
	for _, want := range []Info{
		{},
		{Gateway: "php"},
		{Told: true},
		{Traced: true, Headers: []Header{{"traceparent", "x"}}},
		{Headers: []Header{{"tenant", "acme"}, {"empty", ""}, {"bytes", "\x00\xff"}}},
		{Gateway: "php", Told: true, Traced: true, Headers: []Header{{"k", strings.Repeat("x", MaxHeaderBytes-1)}}},
	} {
		b := want.Append(nil)
		got, err := ParseInfo(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if Traced(b) != want.Traced {
			t.Errorf("Traced is %t of %+v", Traced(b), want)
		}
		if strings.Contains(string(b), "\xff") {
			continue // a string of the .proto file is UTF-8
		}
		var p framepb.Info
		if err := proto.Unmarshal(b, &p); err != nil || p.GetGateway() != want.Gateway || p.GetTold() != want.Told || p.GetTraced() != want.Traced || len(p.GetHeaders()) != len(want.Headers) {
			t.Errorf("the .proto file reads %v, %v, want %+v", &p, err, want)
		}
	}
	if b := (&Info{}).Append(nil); len(b) != 0 {
		t.Errorf("the zero Info has %d bytes, want none", len(b))
	}
}

// TestInfoBounds: an Info that breaks a bound is refused.
func TestInfoBounds(t *testing.T) {
	many := make([]Header, MaxHeaders+1)
	for name, i := range map[string]Info{
		"too many": {Headers: many}, "too large": {Headers: []Header{{"k", strings.Repeat("x", MaxHeaderBytes)}}},
		"large together": {Headers: []Header{{"k", strings.Repeat("x", MaxHeaderBytes/2)}, {"l", strings.Repeat("x", MaxHeaderBytes/2)}}},
		"no key":         {Headers: []Header{{"", "x"}}}, "upper case": {Headers: []Header{{"K", "x"}}}, "long key": {Headers: []Header{{strings.Repeat("k", MaxHeaderKey+1), "x"}}},
		"twice": {Headers: []Header{{"k", "x"}, {"k", "x"}}}, "no name": {Gateway: "a b"},
	} {
		if got, err := ParseInfo(i.Append(nil)); err == nil {
			t.Errorf("%s: it reads %+v", name, got)
		}
	}
	for _, b := range []string{"\xff", "\x0a\x05x", "\x10", "\x1a\x02\x0a\x05", "\x1a\x01\xff"} {
		if _, err := ParseInfo([]byte(b)); !errors.Is(err, ErrFrame) {
			t.Errorf("%q: got %v, want ErrFrame", b, err)
		}
	}
}

// FuzzInfo checks that ParseInfo returns for any bytes. An accepted Info is within the bounds, and
// does not change when it is written and read again.
func FuzzInfo(f *testing.F) {
	f.Add((&Info{Gateway: "php", Told: true, Traced: true, Headers: []Header{{"tenant", "acme"}, {"k", ""}}}).Append(nil))
	f.Add(bytes.Repeat([]byte("\x1a\x00"), 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := ParseInfo(b)
		_ = Traced(b)
		if err != nil {
			return
		}
		if written := i.Append(nil); Traced(written) != i.Traced {
			t.Fatalf("Traced is %t of %+v", !i.Traced, i)
		}
		if err := i.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := ParseInfo(i.Append(nil))
		if err != nil || !reflect.DeepEqual(again, i) {
			t.Fatalf("got %+v, %v, want %+v", again, err, i)
		}
	})
}
