package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/placement"
)

// TestShardsThatStayAreOneLine: moves given up for one reason are logged together.
func TestShardsThatStayAreOneLine(t *testing.T) {
	var lines []string
	s := stays{log: func(l Level, text string, args ...any) {
		if l >= Info {
			lines = append(lines, fmt.Sprintln(append([]any{text}, args...)...))
		}
	}}
	take := func() (taken []string) {
		taken, lines = lines, nil
		return taken
	}
	begin := time.Now()
	add := func(kind string, shard uint32, reason string) {
		s.add(placement.ShardID{Kind: kind, Shard: shard}, 1, reason, begin)
	}
	for i := range uint32(100) {
		add("Account", 256+i, "the new home leaves")
	}
	add("Cart", 7, "it does not encode")
	s.tick(begin.Add(time.Second - 1))
	require.Empty(t, take())
	s.tick(begin.Add(time.Second))
	logged := take()
	require.Len(t, logged, 2)
	require.Contains(t, logged[0], "kind Account shards 100 first Account/256")
	require.Contains(t, logged[1], "kind Cart shards 1 first Cart/7")
	s.tick(begin.Add(time.Hour))
	require.Empty(t, take())
	for i := range 100 {
		add("Account", 256, fmt.Sprint("reason ", i))
	}
	require.Len(t, take(), 96, "reasons are not gathered without end")
}
