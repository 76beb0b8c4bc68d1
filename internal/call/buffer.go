package call

import (
	"sync"
	"unsafe"

	"github.com/shardgen/shardgen/internal/wire"
)

// bufferSizes are the sizes of the buffers into which frames are encoded, and which all
// sessions share. Each is a few times the one before, so that a frame takes little more
// memory than it has bytes. A larger frame, of one envelope, has a buffer of its own.
var bufferSizes = [...]int{2 << 10, 8 << 10, 24 << 10, frameBytes}

// buffers has the unused buffers, by size; each is stored as a pointer to its first byte.
var buffers [len(bufferSizes)]sync.Pool

// newBuffer returns a buffer with room for a header, which is likely to hold that many
// bytes without being copied to a larger one.
func newBuffer(likely int) []byte {
	return buffer(max(wire.MaxFrameHeader, min(likely, frameBytes)))[:wire.MaxFrameHeader]
}

// buffer returns an empty buffer with room for n bytes.
func buffer(n int) []byte {
	for i, size := range bufferSizes {
		if n > size {
			continue
		}
		if first, ok := buffers[i].Get().(*byte); ok {
			return unsafe.Slice(first, size)[:0]
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

// reserve makes room for size more bytes.
func reserve(b []byte, size int) []byte {
	if len(b)+size <= cap(b) {
		return b
	}
	larger := append(buffer(len(b)+size), b...)
	recycle(b)
	return larger
}

// recycle gives back a buffer that is no longer read.
func recycle(b []byte) {
	for i, size := range bufferSizes {
		if cap(b) == size {
			buffers[i].Put(unsafe.SliceData(b))
		}
	}
}
