package node

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/region"
)

// TestStopHookContext: the context of a stop hook ends with the hook, at its deadline, or with the
// node, whenever Done is first called.
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

// TestStopHookContextIsDerivedCheaply: deriving a context from a stop hook's context starts no
// goroutine.
func TestStopHookContextIsDerivedCheaply(t *testing.T) {
	c := newHookContext(t.Context(), time.Now().Add(time.Hour))
	const many = 1000 // other tests may begin a few goroutines meanwhile
	before := runtime.NumGoroutine()
	var derived [many]context.Context
	for i := range derived {
		d, cancel := context.WithCancel(c)
		defer cancel()
		derived[i] = d
	}
	require.Less(t, runtime.NumGoroutine(), before+many/2)
	c.end()
	for _, d := range derived {
		<-d.Done()
		require.ErrorIs(t, d.Err(), context.Canceled)
	}
}

// TestStopHooksShareContext: stop hooks that run one after another share a context while it leaves
// a hook nearly all of its time. A hook that has called Done gets its own context, which ends with
// the hook.
func TestStopHooksShareContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Second
		s := &HostedShard{Host: &Host{driver: &Driver{Context: t.Context()}, Settings: Settings{StopTimeout: limit}}}
		r := &passivationWorker{workers: &passivationWorkers{}}
		defer r.end()
		first := r.watch(s, &region.Entity{})
		require.True(t, r.ended())
		time.Sleep(limit / 200)
		require.Same(t, first, r.watch(s, &region.Entity{}))
		require.True(t, r.ended())
		time.Sleep(limit / 50)
		second := r.watch(s, &region.Entity{})
		require.NotSame(t, first, second)
		<-first.Done()
		require.NoError(t, second.Err())
		require.True(t, r.ended())
		require.ErrorIs(t, second.Err(), context.Canceled)
		require.NoError(t, r.watch(s, &region.Entity{}).Err())
		require.True(t, r.ended())
	})
}
