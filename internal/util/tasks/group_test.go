package tasks_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/util/tasks"
)

// newGroup returns an initialized Group.
func newGroup() *tasks.Group {
	g := &tasks.Group{}
	g.Init()
	return g
}

func TestWaitEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, began := newGroup(), time.Now()
		for i := range 10 {
			g.Go(func() { time.Sleep(time.Duration(i) * time.Second) })
		}
		require.True(t, g.Wait(t.Context()))
		require.Equal(t, 9*time.Second, time.Since(began))
		require.True(t, g.Wait(t.Context()), "once more, with nothing to wait for")
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		g.Add()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, g.Wait(ctx))
		g.Done()
		require.True(t, g.Wait(ctx), "it has ended meanwhile")
	})
}

// TestGoroutinesThatStartLate adds goroutines during Wait, which would be a data race with a
// sync.WaitGroup.
func TestGoroutinesThatStartLate(t *testing.T) {
	g := newGroup()
	for range 1_000 {
		ran := make(chan struct{})
		go g.Go(func() { close(ran) }) // nothing orders it before Wait
		require.True(t, g.Wait(t.Context()))
		<-ran
	}
	require.True(t, g.Wait(t.Context()))
}

func TestGoexitIsAnEnd(t *testing.T) {
	g := newGroup()
	g.Go(runtime.Goexit)
	require.True(t, g.Wait(t.Context()))
}
