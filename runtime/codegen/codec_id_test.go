package codegen

import (
	"errors"
	"math"
	"net/netip"
	"strings"
	"testing"
)

func TestIDs(t *testing.T) {
	type key int8
	for _, id := range []key{0, 1, -128, 127} {
		if got, err := ParseID[key](FormatID(id)); got != id || err != nil {
			t.Errorf("ParseID(FormatID(%d)) = %d, %v", id, got, err)
		}
	}
	if got, err := ParseUintID[uint64](FormatUintID(uint64(math.MaxUint64))); got != math.MaxUint64 || err != nil {
		t.Errorf("the largest id came back as %d, %v", got, err)
	}
	for _, s := range []string{"", "+1", "01", "-0", "128", "-129", "1 ", "1_0", "0x1", "a"} {
		if got, err := ParseID[key](s); err == nil {
			t.Errorf("ParseID(%q) = %d, want an error", s, got)
		}
	}
	for _, s := range []string{"", "-1", "+1", "01", "256"} {
		if got, err := ParseUintID[uint8](s); err == nil {
			t.Errorf("ParseUintID(%q) = %d, want an error", s, got)
		}
	}
}

func TestTextIDs(t *testing.T) {
	want := netip.MustParseAddr("fe80::1")
	s, err := FormatTextID(want)
	if s != "fe80::1" || err != nil {
		t.Errorf("FormatTextID = %q, %v", s, err)
	}
	if got, err := ParseTextID[netip.Addr](s); got != want || err != nil {
		t.Errorf("ParseTextID(%q) = %v, %v", s, got, err)
	}
	for s, part := range map[string]string{"fe80:0:0::1": `"fe80::1"`, "x": "unable to parse"} {
		if _, err := ParseTextID[netip.Addr](s); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseTextID(%q): error %v, want one with %s", s, err, part)
		}
	}
}

// TestLocate fixes the hashes and shards of some ids, because all versions must compute the same.
func TestLocate(t *testing.T) {
	own := errors.New("own")
	tests := []struct {
		name   string
		kind   Kind
		id     string
		hash   uint64
		shard  uint32
		failed string
	}{
		{"xxh64 of a", Kind{Shards: 16}, "a", 0xd24ec4f1a98c6e5b, 16 + 0xd, ""},
		{"the default count", Kind{}, "a", 0xd24ec4f1a98c6e5b, 256 + 0xd2, ""},
		{"one shard", Kind{Shards: 1}, "a", 0xd24ec4f1a98c6e5b, 1, ""},
		{"the user's hash", Kind{Shards: 4, Hash: func(string) (uint64, error) { return 3 << 62, nil }}, "a", 3 << 62, 7, ""},
		{"the user's hash fails", Kind{Name: "K", Hash: func(string) (uint64, error) { return 0, own }}, "a", 0, 0, "locate K: own"},
		{"empty", Kind{Name: "K"}, "", 0, 0, "locate K: check id: empty (want 1 to 1024 bytes)"},
		{"longest", Kind{Shards: 1}, strings.Repeat("a", 1024), 0, 1, ""},
		{"too long", Kind{}, strings.Repeat("a", 1025), 0, 0, "1025 bytes (want 1 to 1024)"},
		{"not a power of two", Kind{Shards: 3}, "a", 0, 0, "3 is not a power of two"},
	}
	for _, tt := range tests {
		hash, shard, err := Locate(tt.kind, tt.id)
		if tt.failed != "" {
			if err == nil || !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.failed)
			}
			continue
		}
		if err != nil || shard != tt.shard || tt.hash != 0 && hash != tt.hash {
			t.Errorf("%s: got %#x, %d, %v; want %#x, %d", tt.name, hash, shard, err, tt.hash, tt.shard)
		}
		if only, err := EntityShard(tt.kind, tt.id); only != shard || err != nil {
			t.Errorf("%s: EntityShard says %d, %v, want %d", tt.name, only, err, shard)
		}
	}
}
