package ordered

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func sign(v int) int { return max(-1, min(1, v)) }

// TestOrder: bytes have the order of their values, and say where they end.
func TestOrder(t *testing.T) {
	check(t, func(a, b int64) int { return cmp.Compare(a, b) }, AppendInt, []int64{
		math.MinInt64, math.MinInt64 + 1, -1 << 32, -65537, -65536, -257, -256, -255, -128, -2, -1, 0, 1, 127, 128, 255, 256, 65535, 65536, 1 << 40, math.MaxInt64,
	})
	check(t, func(a, b int8) int { return cmp.Compare(a, b) }, AppendInt, []int8{-128, -127, -1, 0, 1, 127})
	check(t, func(a, b uint64) int { return cmp.Compare(a, b) }, AppendUint, []uint64{0, 1, 255, 256, 1<<63 - 1, 1 << 63, math.MaxUint64})
	check(t, strings.Compare, AppendString, []string{"", "\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "a", "a\x00", "a\x00b", "ab", "b", "ü", "\xff", "\xff\x00", "\xff\xff"})
	check(t, time.Time.Compare, AppendTime, []time.Time{
		{}, time.Unix(-1, 0), time.Unix(-1, 999_999_999), time.Unix(0, 0), time.Unix(0, 1), time.Unix(1, 0), time.Unix(1<<40, 5),
	})
	if a, b := AppendBool(nil, false), AppendBool(nil, true); bytes.Compare(a, b) >= 0 {
		t.Errorf("false is %x and true %x, want false first", a, b)
	}
}

func check[T any](t *testing.T, compare func(a, b T) int, encode func(b []byte, v T) []byte, values []T) {
	for _, a := range values {
		whole := encode(nil, a)
		if n := Size(append(bytes.Clone(whole), "rest\x00\x00"...)); n != len(whole) {
			t.Errorf("the value %v of %d bytes ends after %d", a, len(whole), n)
		}
		for n := range whole {
			if Size(whole[:n]) != 0 {
				t.Errorf("%d of %d bytes of the value %v pass for a value", n, len(whole), a)
			}
		}
		for _, b := range values {
			if got, want := bytes.Compare(whole, encode(nil, b)), sign(compare(a, b)); got != want {
				t.Errorf("%v is encoded as %x and %v as %x, whose order is %d, want %d", a, whole, b, encode(nil, b), got, want)
			}
		}
	}
}

func TestLongString(t *testing.T) {
	cut := strings.Repeat("x", MaxString)
	if !bytes.Equal(AppendString(nil, cut), AppendString(nil, cut+"y")) {
		t.Error("bytes of a string beyond MaxString count")
	}
}

func FuzzOrder(f *testing.F) {
	f.Add(int64(-1), int64(1), "a\x00", "a", []byte{0x01, 'a', 0, 0})
	f.Fuzz(func(t *testing.T, a, b int64, s, u string, raw []byte) {
		s, u = s[:min(len(s), MaxString)], u[:min(len(u), MaxString)]
		if got, want := bytes.Compare(AppendInt(nil, a), AppendInt(nil, b)), cmp.Compare(a, b); got != want {
			t.Errorf("order of %d and %d is %d, want %d", a, b, got, want)
		}
		if got, want := bytes.Compare(AppendUint(nil, uint64(a)), AppendUint(nil, uint64(b))), cmp.Compare(uint64(a), uint64(b)); got != want {
			t.Errorf("order of %d and %d is %d, want %d", uint64(a), uint64(b), got, want)
		}
		if got, want := bytes.Compare(AppendString(nil, s), AppendString(nil, u)), strings.Compare(s, u); got != want {
			t.Errorf("order of %q and %q is %d, want %d", s, u, got, want)
		}
		key := AppendString(AppendField(nil, 3), s)
		if n := SizeOfKey(string(key) + u); n != len(key) {
			t.Errorf("the key of %q ends after %d bytes, want %d", s, n, len(key))
		}
		if n := SizeOfKey(raw); n < 0 || n > len(raw) {
			t.Errorf("size %d of %d bytes", n, len(raw))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	buf, n := make([]byte, 0, 64), rand.Int64()
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendInt(AppendField(AppendString(AppendField(buf[:0], 1), "open"), 2), n)
	}
}
