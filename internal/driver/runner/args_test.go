package runner

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArgsBuffer: arguments of all sizes are read as they were added, also from reused memory, and
// none has capacity that overlaps the next.
func TestArgsBuffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 8, 64, leastChunk, 1000, firstChunk - 1, firstChunk, firstChunk + 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 3 * chunkBytes}
	var b argsBuffer
	for round := range 300 {
		var want [][]byte
		var ends []argsEnd
		for range r.IntN(40) {
			args := bytes.Repeat([]byte{byte(r.Uint32())}, sizes[r.IntN(len(sizes))])
			want, ends = append(want, args), append(ends, b.add(args))
		}
		var from argsReader
		for i, end := range ends {
			got := from.next(b, end)
			require.True(t, bytes.Equal(want[i], got), "round %d, arguments %d of %d: %d bytes, want %d", round, i, len(ends), len(got), len(want[i]))
			require.Equal(t, len(got), cap(got))
		}
		b = b.emptied()
		require.LessOrEqual(t, len(b), 1, "chunks that are kept")
	}
}

// TestArgsBufferKeepsLittle: after a burst a buffer keeps only its first chunk.
func TestArgsBufferKeepsLittle(t *testing.T) {
	var b argsBuffer
	b.add(make([]byte, 64))
	require.Equal(t, leastChunk, cap(b[0]), "a lone tell's")
	for range 10_000 {
		b.add(make([]byte, 1000))
	}
	b = b.emptied()
	require.Len(t, b, 1)
	require.Equal(t, firstChunk, cap(b[0]))
	require.LessOrEqual(t, cap(b), keptChunks)
}

// TestEmptiedBufferHoldsNoChunk: an emptied buffer does not refer to chunks that went back to the
// pool or were too large for it.
func TestEmptiedBufferHoldsNoChunk(t *testing.T) {
	b := argsBuffer{make([]byte, leastChunk), make([]byte, chunkBytes), make([]byte, 2*chunkBytes)}
	require.Equal(t, argsBuffer{{}, nil, nil}, b.emptied()[:3])
}
