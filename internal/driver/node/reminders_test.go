package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/wire"
)

// TestRemindersOfEndingTurn: a goroutine of a turn that is being committed changes no reminders, and
// learns that.
func TestRemindersOfEndingTurn(t *testing.T) {
	r := &durableTurn{reminders: &turnReminders{all: reminders.List{{Name: "a"}, {Name: "b"}}}}
	there, err := r.cancel("a")
	require.NoError(t, err)
	require.True(t, there)
	require.Equal(t, []*wire.DurableReminder{{Name: "b"}}, r.takeReminders().GetAll())
	there, err = r.cancel("b")
	require.ErrorIs(t, err, ErrNoReminders)
	require.False(t, there)
}
