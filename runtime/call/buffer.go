package call

import (
	"sync"

	"github.com/shardgen/shardgen/internal/wire"
)

// Frames are encoded into buffers of two sizes that all paths share: small ones for
// the few envelopes of a quiet path, large ones for full frames. A frame of one
// envelope that is larger still has a buffer of its own.
type (
	smallBuffer [2 << 10]byte
	largeBuffer [frameBytes]byte
)

var (
	smallBuffers = sync.Pool{New: func() any { return new(smallBuffer) }}
	largeBuffers = sync.Pool{New: func() any { return new(largeBuffer) }}
)

// newBuffer is a buffer with nothing but the room for a header.
func newBuffer() []byte { return smallBuffers.Get().(*smallBuffer)[:wire.MaxFrameHeader] }

// reserve makes room for size more bytes.
func reserve(b []byte, size int) []byte {
	if len(b)+size <= cap(b) {
		return b
	}
	var larger []byte
	if n := len(b) + size; n <= frameBytes {
		larger = largeBuffers.Get().(*largeBuffer)[:0]
	} else {
		larger = make([]byte, 0, n)
	}
	larger = append(larger, b...)
	recycle(b)
	return larger
}

// recycle gives a buffer back, when nobody reads it any more.
func recycle(b []byte) {
	switch cap(b) {
	case len(smallBuffer{}):
		smallBuffers.Put((*smallBuffer)(b[:cap(b)]))
	case len(largeBuffer{}):
		largeBuffers.Put((*largeBuffer)(b[:cap(b)]))
	}
}
