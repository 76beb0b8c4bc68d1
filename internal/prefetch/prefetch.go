// Package prefetch reads the memory that turns read first, for many turns at once: of
// 10,000 entities that are called in random order hardly one is in the processor's cache.
// A turn would wait for its entity, and then for the user's struct; so these reads are
// issued for all the turns together. The result has no meaning; it must be used so that
// the compiler does not remove the reads.
package prefetch

import (
	"unsafe"

	"github.com/shardgen/shardgen/internal/region"
)

// Turns is for how many turns to read at a time: few enough for the processor's nearest
// cache, and enough to wait for memory all at once.
const Turns = 16

// FirstByte is the first byte of the user's struct, or 0. It may be called without
// holding the turn: then Value may change meanwhile, so only its pointer word is read,
// never its type. And goroutines of the user's own may write to the struct, under a lock
// of theirs. So the race detector does not get to see these reads.
//
//go:norace
func FirstByte(e *region.Entity) byte {
	type emptyInterface struct{ kind, data unsafe.Pointer }
	if p := (*emptyInterface)(unsafe.Pointer(&e.Value)).data; p != nil {
		return *(*byte)(p) // a factory returns a pointer
	}
	return 0
}
