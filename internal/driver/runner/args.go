package runner

import "sync"

// argsBuffer holds the arguments of a batch's tells, one after another, in chunks. Arguments in the
// first chunk are copied again when that chunk grows; arguments in other chunks are copied only
// once. The zero value is empty. While its batch is the queue, Runner.mu guards the buffer; later
// the run token does. With separate memory for each tell's arguments, local tells run at 0.6 of
// their rate (What each trick buys in bench/README.md).
type argsBuffer [][]byte

const (
	// firstChunk is the size to which a buffer's first chunk grows, beginning with leastChunk. The
	// buffer keeps that chunk, because most batches need no other.
	firstChunk, leastChunk = 8 << 10, 512
	// chunkBytes is the size of later chunks, from a pool that all buffers share. Arguments larger
	// than that get a chunk of their own size.
	chunkBytes = 64 << 10
	// keptChunks is the number of chunks above which an emptied buffer's list of chunks is not
	// reused.
	keptChunks = 64
)

var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// argsEnd is twice the position in a chunk at which arguments end, plus one if they are the first
// in the chunk.
type argsEnd int

// add copies arguments into the buffer, after all earlier ones.
func (b *argsBuffer) add(args []byte) argsEnd {
	if len(args) == 0 {
		return 0
	}
	if last := len(*b) - 1; last < 0 || len((*b)[last])+len(args) > cap((*b)[last]) {
		b.grow(len(args))
	}
	c, opens := &(*b)[len(*b)-1], argsEnd(0)
	if len(*c) == 0 {
		opens = 1
	}
	*c = append(*c, args...)
	return argsEnd(len(*c))<<1 | opens
}

// grow makes room for n more bytes in the last chunk, or appends a chunk.
func (b *argsBuffer) grow(n int) {
	switch {
	case len(*b) == 0 && n <= firstChunk:
		*b = append(*b, make([]byte, 0, max(n, leastChunk)))
	case len(*b) == 1 && len((*b)[0])+n <= firstChunk:
		first := (*b)[0]
		(*b)[0] = append(make([]byte, 0, min(max(len(first)+n, 2*cap(first)), firstChunk)), first...)
	case n <= chunkBytes:
		*b = append(*b, chunks.Get().(*[chunkBytes]byte)[:0])
	default:
		*b = append(*b, make([]byte, 0, n))
	}
}

// emptied returns an empty buffer with b's memory. Nobody may read b's arguments after that.
func (b argsBuffer) emptied() argsBuffer {
	for i := range b {
		if cap(b[i]) == chunkBytes {
			chunks.Put((*[chunkBytes]byte)(b[i][:chunkBytes]))
		}
	}
	if len(b) == 0 || cap(b[0]) > firstChunk {
		return nil
	}
	if cap(b) > keptChunks {
		return argsBuffer{b[0][:0]}
	}
	clear(b[1:])
	b[0] = b[0][:0]
	return b[:1]
}

// argsReader is the position in a buffer at which the next arguments are read. The zero value is
// the buffer's beginning.
type argsReader struct{ chunk, at int }

// next returns the next arguments. end is what add returned for them.
func (r *argsReader) next(b argsBuffer, end argsEnd) []byte {
	if end == 0 {
		return nil
	}
	if end&1 == 1 {
		if r.at > 0 {
			r.chunk, r.at = r.chunk+1, 0
		}
		for len(b[r.chunk]) == 0 { // the one that was kept was too small
			r.chunk++
		}
	}
	from, to := r.at, int(end>>1)
	r.at = to
	return b[r.chunk][from:to:to]
}
