package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/wire"
)

// TestRemindersOfEndingTurn: a goroutine of a turn that is being committed cannot change reminders,
// and gets an error.
func TestRemindersOfEndingTurn(t *testing.T) {
	r := &durableTurn{reminders: &turnReminders{all: reminders.List{{Name: "a"}, {Name: "b"}}}}
	without := func(name string) error {
		return r.change("unschedule", func(all reminders.List) (reminders.List, error) { return all.Without(name), nil })
	}
	require.NoError(t, without("a"))
	require.Equal(t, []*wire.DurableReminder{{Name: "b"}}, r.takeReminders().GetAll())
	require.ErrorIs(t, without("b"), ErrNoReminders)
}
