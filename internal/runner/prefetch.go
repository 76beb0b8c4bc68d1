package runner

import (
	"unsafe"

	"github.com/shardgen/shardgen/internal/region"
)

// prefetchTurns is for how many turns memory is read at a time: few enough for the
// processor's nearest cache, and enough to wait for memory all at once.
const prefetchTurns = 16

// prefetch reads the memory that turns read first, for all of them together: of 10,000
// entities that are called in random order hardly one is in the processor's cache, and a turn
// would wait for its entity, and then for the user's struct. The result has no meaning; it
// must be used so that the compiler does not remove the reads. The caller has the turns.
//
// Without it, one-way calls from two goroutines to 10,000 entities of the same process take
// 1.9 times the processor time; see What each trick buys in bench/README.md.
func prefetch(turns []Turn) (sum byte) {
	for i := range turns {
		turns[i].Entity.Busy() // reads its word
	}
	for i := range turns {
		sum += firstByte(turns[i].Entity)
	}
	return sum
}

// firstByte is the first byte of the user's struct, or 0. It may be called without holding
// the turn: then Value may change meanwhile, so only its pointer word is read, never its
// type. And goroutines of the user's own may write to the struct, under a lock of theirs.
// So the race detector does not get to see these reads.
//
//go:norace
func firstByte(e *region.Entity) byte {
	type emptyInterface struct{ kind, data unsafe.Pointer }
	if p := (*emptyInterface)(unsafe.Pointer(&e.Value)).data; p != nil {
		return *(*byte)(p) // a factory returns a pointer
	}
	return 0
}
