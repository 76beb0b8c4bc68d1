package runner

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/tasks"
)

// TestTurnsAndThieves: each of many turns keeps the run token to its end, or loses it to exactly
// one goroutine, which continues the series.
func TestTurnsAndThieves(t *testing.T) {
	const turns = 30_000
	var group tasks.Group
	group.Init()
	var token Token
	var over atomic.Bool
	n, resumed, done := 0, 0, make(chan struct{}) // the counts belong to the holder of the token
	series := func() {
		for n < turns {
			n++
			hold := token.Enter()
			runtime.Gosched()
			if !hold.Leave() {
				hold.HandOver() // without effect
				return          // another goroutine goes on
			}
		}
		close(done)
	}
	token.Init(&group, func() { resumed++; series() })
	var thieves sync.WaitGroup
	var stolen atomic.Int32
	for range 2 {
		thieves.Go(func() {
			for !over.Load() {
				if word := token.word.Load(); word%2 == 1 {
					Hold{token: &token, word: word}.HandOver()
					stolen.Add(1)
				}
				runtime.Gosched()
			}
		})
	}
	group.Go(series)
	<-done
	over.Store(true)
	thieves.Wait()
	require.True(t, group.Wait(t.Context()))
	require.NotZero(t, resumed, "no turn lost the token")
	require.LessOrEqual(t, resumed, int(stolen.Load()))
}
