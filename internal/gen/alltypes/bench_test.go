package alltypes

import (
	"context"
	"testing"
)

// BenchmarkScalars measures encoding and running a call with five scalar fields.
// TestScalarsDoNotAllocate checks that the call does not allocate.
func BenchmarkScalars(b *testing.B) {
	alltypes, ctx := &AllTypes{}, context.Background()
	buffer, out := make([]byte, 0, 100), make([]byte, 0, 100)
	args := appendAllTypesPlainArgs(nil, -5, 1<<31, true, 2.5, 200)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buffer = appendAllTypesPlainArgs(buffer[:0], -5, 1<<31, true, 2.5, 200)
		}
	})
	b.Run("run", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := dispatchAllTypesPlain(ctx, alltypes, args, out); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkTextLocally measures a local call whose argument and result are copied by encoding and
// decoding their text, and one whose copies are assignments.
func BenchmarkTextLocally(b *testing.B) {
	near, ctx := NewAllTypesClient(&local{alltypes: &AllTypes{}}).Ref(1), context.Background()
	b.Run("scalars", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := near.Plain(ctx, -5, 1<<31, true, 2.5, 200); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("text", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := near.EchoCode(ctx, "a code of some length"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
