package runner

import "sync"

// argsBuffer holds the arguments of a batch's tells, in chunks. While its batch is the queue,
// Runner.mu guards it; later the run token does. With separate memory for each tell, local tells
// run at 0.6 of their rate (What each trick buys in bench/README.md).
type argsBuffer [][]byte

const (
	// firstChunk bounds a buffer's first chunk, which begins with leastChunk bytes and is kept.
	// Most batches need no other chunk.
	firstChunk, leastChunk = 8 << 10, 512
	// chunkBytes is the size of later chunks, from a shared pool. Larger arguments get a chunk of
	// their own.
	chunkBytes = 64 << 10
	keptChunks = 64
)

var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

// argsEnd is twice the end of arguments in a chunk, plus one if they are the first in the chunk. 0
// means no arguments.
type argsEnd int

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

// emptied returns an empty buffer with b's memory. Nobody may read b afterwards.
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

// argsReader is the position of the next arguments in a buffer.
type argsReader struct{ chunk, at int }

func (r *argsReader) next(b argsBuffer, end argsEnd) []byte {
	if end == 0 {
		return nil
	}
	if end&1 == 1 {
		if r.at > 0 {
			r.chunk, r.at = r.chunk+1, 0
		}
		for len(b[r.chunk]) == 0 { // the kept first chunk was too small for the first arguments
			r.chunk++
		}
	}
	from, to := r.at, int(end>>1)
	r.at = to
	return b[r.chunk][from:to:to]
}
