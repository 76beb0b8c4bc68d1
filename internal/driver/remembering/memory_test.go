package remembering

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type ending struct {
	process
	ctx context.Context
}

func (e ending) Context() context.Context { return e.ctx }

// A caller whose process stops does not wait for the loop, which may still be running its question.
func TestAskWhileStopping(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	m := New(ending{ctx: ctx})
	release, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		m.loop.Run(ctx.Done(), func() {}, func() time.Time { return time.Time{} })
	}()
	require.True(t, ask(m, func() bool { return true }))
	require.False(t, ask(m, func() bool {
		stop()
		<-release
		return true
	}))
	close(release)
	<-ended
}
