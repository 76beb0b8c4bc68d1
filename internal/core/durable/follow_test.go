package durable

import (
	"testing"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TestUncountedChunk: a former home had begun a chunk that it never counted, and the present home
// has its events, and later ones, in the last chunk. A follower reads on from any place.
func TestUncountedChunk(t *testing.T) {
	all := aJournal(1, [][]uint64{{1, 2, 3}, {4, 5, 6, 7, 8}})
	uncounted := &wire.DurableChunk{Format: 1, Chunk: 3, Events: []*wire.DurableEvent{{Number: 4, Event: []byte("e4")}, {Number: 5, Event: []byte("e5")}}}
	all = append(all, store.Record{Key: chunkKey(3), Revision: 1, Value: seal(uncounted)})
	for n := range uint64(9) {
		for chunk := uint64(1); chunk <= 3; chunk++ { // the chunk of a place is a hint
			got, after, err := readFrom(Place{Chunk: chunk, Number: n}, all)
			if err != nil || after.Number != 8 || len(got) != int(8-n) {
				t.Errorf("behind event %d, in chunk %d: read %q up to %d, %v", n, chunk, got, after.Number, err)
			}
		}
	}
}
