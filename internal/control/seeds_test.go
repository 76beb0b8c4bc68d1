package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

// TestMisspeltSeedIsLoggedOnce: a seed that was never a member is logged when it has had
// its time, once, and one that was a member is not.
func TestMisspeltSeedIsLoggedOnce(t *testing.T) {
	var logged []string
	log := func(_ Level, _ string, args ...any) { logged = append(logged, fmt.Sprintln(args...)) }
	begin := time.Unix(1_000_000, 0)
	var s seeds
	s.begin([]string{"a", "b", "bb"}, "a", time.Second, begin)
	s.seen(&membership.View{ByAddress: []membership.MemberView{
		{Member: membership.Member{Address: transport.Address{Name: "b", Incarnation: 1}}},
	}})
	s.tick(begin, log)
	s.tick(begin.Add(seedPatience*time.Second-1), log)
	require.Empty(t, logged, "before its time")
	s.tick(begin.Add(seedPatience*time.Second), log)
	require.Equal(t, []string{"seeds bb after 10s\n"}, logged)
	s.tick(begin.Add(time.Hour), log)
	require.Len(t, logged, 1, "again")

	logged = nil
	s.begin([]string{"a"}, "a", time.Second, begin)
	s.tick(begin.Add(time.Hour), log)
	require.Empty(t, logged, "of a process that joins through itself")
}
