package shard

import (
	"unsafe"

	"github.com/shardgen/shardgen/internal/region"
)

// prefetchTurns is how many turns prefetch is for at a time: few enough for the processor's
// nearest cache, and enough to wait for memory all at once.
const prefetchTurns = 16

// prefetch reads what the next turns will read first: of 10,000 entities that are called
// in no order hardly one is in the cache. A turn would wait for its entity, and then
// for the user's struct; here the processor asks for those of all the turns together.
// The caller has the turns. What is returned means nothing; who keeps it keeps the
// compiler from leaving the reads out.
func prefetch(turns []queuedTurn) (sum byte) {
	for i := range turns {
		turns[i].entity.Busy()
	}
	for i := range turns {
		sum += firstByte(turns[i].entity)
	}
	return sum
}

// firstByte is the first byte of the user's struct, or 0. Who has not got the turn may
// call it too: then Value may change meanwhile, so only its one word that is a pointer is
// read, never its type. And goroutines of the user's own may write to the struct, under a
// lock of theirs. So the race detector does not get to see these reads.
//
//go:norace
func firstByte(e *region.Entity) byte {
	type emptyInterface struct{ kind, data unsafe.Pointer }
	if p := (*emptyInterface)(unsafe.Pointer(&e.Value)).data; p != nil {
		return *(*byte)(p) // a factory returns a pointer
	}
	return 0
}
