package prefetch

import (
	"sync"
	"testing"

	"github.com/shardgen/shardgen/internal/region"
)

// TestFirstByteIsNobodysRace: who has not got the turn may call it while the struct comes
// and goes.
func TestFirstByteIsNobodysRace(t *testing.T) {
	type entity struct{ n int64 }
	e := &region.Entity{}
	var turns sync.WaitGroup
	turns.Go(func() {
		for i := range int64(10_000) {
			e.Value = &entity{i}
			e.Value = nil
		}
	})
	for range 10_000 {
		FirstByte(e)
	}
	turns.Wait()
}
