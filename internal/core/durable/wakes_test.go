package durable

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/wire"
)

// If the log loses the acknowledged commit that postponed a reminder, the record's earlier reminder
// counts again. So the table must not name a later time while the record or the leaf has the earlier
// one.
func TestATableNamesNoTimeAfterALeafs(t *testing.T) {
	const early, late = 1_000, 2_000
	s := New(time.Unix(0, 0), Config{Epoch: 1, Node: "n", Incarnation: 1})
	s.wakes.read, s.wakes.next = wakeKey(late, ""), wakeKey(late, "") // all keys before late were read
	e := s.tail.at("a")
	e.loaded, e.entered = true, early
	e.last.apply(&wire.DurableCommit{Version: 2, Reminders: &wire.DurableReminders{All: []*wire.DurableReminder{{Name: "r", Due: late}}}})
	e.acked = e.last
	require.EqualValues(t, late, e.acked.due())

	require.EqualValues(t, early, s.earliest(&edit{}), "the checkpoint does not write the entity, so its leaf stays")
	e.saving = e.acked.number
	require.EqualValues(t, late, s.earliest(&edit{of: []savedEntity{{e, record{there: true, due: late}}}}), "the checkpoint replaces the leaf")
	require.EqualValues(t, early, s.earliest(&edit{of: []savedEntity{{e, record{there: true, due: early}}}}), "the postponing commit is newer than the checkpoint's record")
}
