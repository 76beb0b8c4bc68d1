package node

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/reminders"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/store"
)

// TestMessageID checks that each message has an id that stores accept, whatever its type's name is.
func TestMessageID(t *testing.T) {
	for kind, want := range map[string]string{
		"Wallet": "Wallet/4095/18446744073709551615", "Größe 1": "Gr%C3%B6%C3%9Fe%201/4095/18446744073709551615",
		strings.Repeat("\x00", store.MaxType): strings.Repeat("%00", store.MaxType) + "/4095/18446744073709551615",
	} {
		got := messageID(store.Shard{Type: kind, Number: store.MaxShards - 1}, math.MaxUint64)
		if err := store.CheckMessageID(got); err != nil || got != want {
			t.Errorf("type %q: got %q, %v; want %q", kind, got, err, want)
		}
	}
}

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
