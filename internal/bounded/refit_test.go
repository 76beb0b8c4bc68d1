package bounded_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/bounded"
)

func TestRefit(t *testing.T) {
	m, most := map[int]int{}, 0
	same := func() bool { // a copy does not see what is put into m
		next := bounded.Refit(m, &most)
		m[-1] = 1
		_, ok := next[-1]
		delete(m, -1)
		m = next
		delete(m, -1)
		return ok
	}
	for i := range 1000 {
		m[i] = i
	}
	require.True(t, same())
	for i := range 700 {
		delete(m, i)
	}
	require.True(t, same(), "it has shrunk little")
	for i := 700; i < 990; i++ {
		delete(m, i)
	}
	require.False(t, same())
	require.Len(t, m, 10)
	require.Equal(t, 995, m[995])
	clear(m)
	require.True(t, same(), "it was small")
}
