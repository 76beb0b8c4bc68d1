package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOutsidersAreBounded: messages of one name beyond the bounds are dropped, and messages of
// other names are handled. There is room again when messages were handled and a second has passed.
func TestOutsidersAreBounded(t *testing.T) {
	var o Outsiders
	now := time.Unix(0, 0)
	let := func(name string, n int) (in int) {
		for range n {
			if o.Enter(name, now) {
				in++
			}
		}
		return in
	}
	require.Equal(t, maxOutsiderWaiting, let("evil", 1000))
	require.Equal(t, 1, let("web", 1), "another name")
	total := maxOutsiderWaiting
	for range maxOutsiderRate {
		o.Leave("evil")
		total += let("evil", 2)
	}
	require.Equal(t, maxOutsiderRate, total, "in one second")
	now = now.Add(time.Second)
	require.NotZero(t, let("evil", 1), "in the next one")

	now = now.Add(time.Hour)
	for i := range 2 * manyOutsiders {
		name := fmt.Sprint("n", i)
		require.Equal(t, 1, let(name, 1))
		o.Leave(name)
		now = now.Add(10 * time.Millisecond)
	}
	require.LessOrEqual(t, len(o.named), manyOutsiders)
}
