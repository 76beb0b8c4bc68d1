package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
	"github.com/stretchr/testify/require"
)

// TestLateRefusalDoesNotReplaceAnAbort: a late report of a former move does not replace a report of
// a later move. It is not sent if the table shows that the former move has ended.
func TestLateRefusalDoesNotReplaceAnAbort(t *testing.T) {
	id := placement.ShardID{Kind: "K", Shard: 1}
	epoch := func(n uint32) placement.Epoch { return placement.MakeEpoch(1, n) }
	var none *placement.Table
	a := aborts{}
	if !a.add(id, abort{epoch(4), "a turn"}, none) {
		t.Error("the first report is not sent")
	}
	if a.add(id, abort{epoch(2), "refused late"}, none) || a[id].epoch != epoch(4) {
		t.Errorf("a late refusal is sent, and the report of %v waits: want 1.4", a[id])
	}
	if !a.add(id, abort{epoch(6), "a turn"}, none) || a[id].epoch != epoch(6) {
		t.Errorf("a later report is not sent, and the report of %v waits: want 1.6", a[id])
	}
	var old placement.Table
	t7, err := old.Apply(placement.Diff{
		Full: true, To: placement.Version{Term: placement.Term{Number: 1}, Seq: 1},
		Entries: []placement.Entry{{ShardID: id, Home: transport.Address{Name: "a", Incarnation: 1}, Epoch: epoch(7)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if (aborts{}).add(id, abort{epoch(6), "refused late"}, t7) {
		t.Error("the report is sent although the table shows the move's end")
	}
	if !(aborts{}).add(id, abort{epoch(8), "a turn"}, t7) {
		t.Error("the report of a move after the table's is not sent")
	}
}

// TestShardsThatStayAreOneLine: moves given up for one reason are logged in one line.
func TestShardsThatStayAreOneLine(t *testing.T) {
	var lines []string
	s := abortedMoves{log: func(l Level, text string, args ...any) {
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
