package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEveryDurableTypeIsSwept: also one without a ttl, whose forgotten entities leave records for the
// keys of their commands. It is swept seldom.
func TestEveryDurableTypeIsSwept(t *testing.T) {
	require.True(t, sweepOf(time.Hour).On)
	seldom := sweepOf(0)
	require.True(t, seldom.On)
	require.GreaterOrEqual(t, seldom.Rest, 24*time.Hour)
}
