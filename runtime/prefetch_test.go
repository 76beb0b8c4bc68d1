package shard

import (
	"sync"
	"testing"

	"github.com/shardgen/shardgen/internal/region"
)

// TestWarmIsNobodysRace: what warm reads may be written meanwhile by goroutines of the
// user's own, which have no turn but a lock.
func TestWarmIsNobodysRace(t *testing.T) {
	type entity struct {
		mu    sync.Mutex
		beats int
	}
	busy := &entity{}
	var turns []queuedTurn
	for _, value := range []any{busy, nil, (*entity)(nil), &struct{}{}, 7} {
		turns = append(turns, queuedTurn{entity: &region.Entity{Value: value}})
	}
	var own sync.WaitGroup
	own.Go(func() {
		for range 10_000 {
			busy.mu.Lock()
			busy.beats++
			busy.mu.Unlock()
		}
	})
	for range 10_000 {
		prefetch(turns)
	}
	own.Wait()
}

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
		firstByte(e)
	}
	turns.Wait()
}
