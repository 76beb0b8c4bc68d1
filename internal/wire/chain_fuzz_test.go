package wire

import (
	"reflect"
	"testing"
)

// FuzzChain checks that ParseChain and ParsePeer return for any bytes, and that an accepted result
// does not change when it is written and read again.
func FuzzChain(f *testing.F) {
	f.Add(AppendLink(AppendLink(nil, "Cart", "7", 300), "Stock", "tea", 301))
	f.Add([]byte("\x0a\x01a\x11\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if links, err := ParseChain(b); err == nil {
			var written []byte
			for _, l := range links {
				written = AppendLink(written, l.Kind, l.Entity, l.Shard)
			}
			if again, err := ParseChain(written); err != nil || len(links) > 0 && !reflect.DeepEqual(again, links) {
				t.Fatalf("got %+v, %v, want %+v", again, err, links)
			}
		}
		if p, err := ParsePeer(b); err == nil {
			if again, err := ParsePeer(AppendPeer(nil, p)); err != nil || again != p {
				t.Fatalf("got %+v, %v, want %+v", again, err, p)
			}
		}
	})
}
