package shard

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNameSet: a set has the names that are true in the map, however many there are.
func TestNameSet(t *testing.T) {
	for _, n := range []int{0, 1, maxScanned, maxScanned + 1, 40} {
		names := map[string]bool{}
		for i := range n {
			names[strconv.Itoa(i)] = i%2 == 0
		}
		s := newNameSet(names)
		for i := range n + 2 {
			require.Equal(t, i < n && i%2 == 0, s.has(strconv.Itoa(i)), "%d of %d", i, n)
		}
	}
}
