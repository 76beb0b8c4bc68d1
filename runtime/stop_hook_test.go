package shard

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestStopHookContext: the context of a stop hook ends with the hook, at its deadline,
// and with the node, whenever somebody first asks for it.
func TestStopHookContext(t *testing.T) {
	t.Parallel()
	type key struct{}
	for name, early := range map[string]bool{"asked for before": true, "asked for afterwards": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := func(parent context.Context) *hookContext {
					c := newHookContext(parent, time.Now().Add(time.Second))
					if early {
						require.NoError(t, c.Err())
						require.NotNil(t, c.Done())
					}
					return c
				}
				node, stop := context.WithCancel(context.WithValue(t.Context(), key{}, "node"))
				c := begin(node)
				at, ok := c.Deadline()
				require.True(t, ok)
				require.Equal(t, time.Second, time.Until(at))
				require.Equal(t, "node", c.Value(key{}))
				c.end()
				<-c.Done()
				require.ErrorIs(t, c.Err(), context.Canceled)

				c = begin(node)
				time.Sleep(time.Second)
				<-c.Done()
				require.ErrorIs(t, c.Err(), context.DeadlineExceeded)
				c.end()
				require.ErrorIs(t, c.Err(), context.DeadlineExceeded)

				c = begin(node)
				stop()
				<-c.Done()
				require.ErrorIs(t, c.Err(), context.Canceled)
			})
		})
	}
}

// TestStopHookContextIsDerivedCheaply: a context that a stop hook derives from its own
// has no goroutine.
func TestStopHookContextIsDerivedCheaply(t *testing.T) {
	c := newHookContext(t.Context(), time.Now().Add(time.Hour))
	before := runtime.NumGoroutine()
	derived, cancel := context.WithCancel(c)
	defer cancel()
	require.Equal(t, before, runtime.NumGoroutine())
	c.end()
	<-derived.Done()
	require.ErrorIs(t, derived.Err(), context.Canceled)
}
