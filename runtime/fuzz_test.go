package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/internal/driver/node"
	"github.com/shardgen/shardgen/runtime/codegen"
	"github.com/shardgen/shardgen/transport"
)

// FuzzPosition reads any text as a follower's position. An accepted position stays the same when it
// is written and read again. A refused one leaves the follower where it was.
func FuzzPosition(f *testing.F) {
	follower := func() *following {
		return &following{kind: "Cart", Follower: durablehost.Follower{Places: []durable.Place{{Chunk: 1, Number: 2, Sum: 3}, {Chunk: 1 << 60}}}}
	}
	f.Add(string(follower().position()))
	f.Add("1.Cart.")
	f.Add("1.Cart.AgECAwQ")
	f.Add("2.Cart.AgECAwQFBg")
	f.Fuzz(func(t *testing.T, text string) {
		got, before := follower(), follower().Places
		if got.take(Position(text)) != nil {
			if !slices.Equal(got.Places, before) {
				t.Fatalf("%q is refused, and the follower stands at %v, want %v", text, got.Places, before)
			}
			return
		}
		again := follower()
		if err := again.take(got.position()); err != nil || !slices.Equal(again.Places, got.Places) {
			t.Fatalf("got %v, %v, want %v", again.Places, err, got.Places)
		}
	})
}

// TestPositionOfTheFormatBefore: a position of the former format, without checksums of events, is
// accepted. In a shard without a read event, the follower begins at the oldest one.
func TestPositionOfTheFormatBefore(t *testing.T) {
	f := following{kind: "Cart", Follower: durablehost.Follower{Places: make([]durable.Place, 2)}}
	if err := f.take("1.Cart.AgECAAA"); err != nil || !slices.Equal(f.Places, []durable.Place{{Chunk: 1, Number: 2}, {}}) || f.Begun() {
		t.Errorf("got %v, %v", f.Places, err)
	}
}

// FuzzUnderstand gives any request to the gateway. An accepted request names a method of the type,
// has a bounded timeout, and has headers that can be sent on.
func FuzzUnderstand(f *testing.F) {
	f.Add("php", "Get", "2s", "Tenant", "a")
	f.Add("", "", "-1s", "", "")
	f.Add("php", "Get", "2562047h", "a\x00b", "\xff")
	g := requests{&Node{cfg: Config{CallTimeout: time.Second}}}
	k := &node.Kind{Desc: codegen.Kind{Name: "Cart", Methods: []string{"Get"}}}
	f.Fuzz(func(t *testing.T, caller, method, timeout, key, value string) {
		info, d, err := g.understand(k, &transport.Request{
			Caller: caller, Kind: "Cart", Method: method, Timeout: timeout, Header: map[string][]string{key: {value, value}},
		}, &Raw{})
		if err != nil {
			if n := len(err.Error()); n > 1024 {
				t.Fatalf("an error of %d bytes", n)
			}
			return
		}
		if method != "Get" || d <= 0 || d > maxRequestTimeout || info.Check() != nil || info.Gateway != caller {
			t.Fatalf("method %q, timeout %v, %+v", method, d, info)
		}
	})
}
