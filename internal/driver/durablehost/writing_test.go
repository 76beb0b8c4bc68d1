package durablehost

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// TestWrites: a shard reports since when and why its writes fail, or that they are slow. It reports
// nothing when writes are fast again, or the shard is no longer here.
func TestWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := memory.New().Client()
		s, _ := newShard(t, client.Shards(), 1, durable.Limits{})
		well := func(why string) {
			t.Helper()
			w, bad := s.Writes(time.Now())
			require.False(t, bad, "%s: %+v", why, w)
		}
		loaded := false
		commit := func() {
			tenure := tenureOf(t, s)
			if !loaded {
				_, err := tenure.Load(t.Context(), "alice")
				require.NoError(t, err)
				loaded = true
			}
			_, err := tenure.Commit(&durable.Turn{Entity: "alice", State: []byte("6")})
			require.NoError(t, err)
		}
		s.Open(anEpoch + 1)
		commit()
		time.Sleep(time.Second)
		well("it is open")

		client.Cut(true)
		began := time.Now()
		commit()
		time.Sleep(failsFor / 2)
		well("one failure is tried again")
		time.Sleep(3 * failsFor)
		w, bad := s.Writes(time.Now())
		require.True(t, bad)
		require.ErrorIs(t, w.Err, store.ErrUnavailable)
		require.WithinDuration(t, began, w.Since, 2*failsFor)
		client.Cut(false)
		time.Sleep(5 * time.Second)
		well("the store is back")

		client.Fault(func(memory.Op) memory.Fault { return memory.Fault{Delay: slowWrite - 100*time.Millisecond} })
		commit()
		time.Sleep(slowWait)
		well("fast enough")
		s.writing.took(time.Now().Add(-slowWrite), nil)
		w, bad = s.Writes(time.Now())
		require.True(t, bad)
		require.NoError(t, w.Err)
		require.Equal(t, slowWrite, w.Took)
		well2 := func() bool { _, bad := s.Writes(time.Now().Add(slowLasts)); return !bad }
		require.True(t, well2(), "no other slow one came")
		s.writing.begun(time.Now().Add(-slowWait))
		w, bad = s.Writes(time.Now())
		require.True(t, bad)
		require.Equal(t, slowWait, w.Took, "it still waits")
		s.writing.took(time.Now(), nil)
		well("the next was fast")

		s.writing.ended(s.cfg.Appends, store.ErrUncertain)
		s.writing.ended(s.cfg.Appends, errors.Join(store.ErrConflict))
		time.Sleep(failsFor)
		well("a conflict is an answer")
		s.writing.ended(s.cfg.Appends, store.ErrUncertain)
		s.Close()
		time.Sleep(failsFor)
		well("it is elsewhere")
		require.WithinDuration(t, time.Now(), s.cfg.Appends.Wrote(), time.Minute)
	})
}

// TestTryWrite: the probe fails while the store takes no writes, and two probes do not disturb each other.
func TestTryWrite(t *testing.T) {
	server := memory.New()
	client := server.Client()
	for range 2 {
		require.NoError(t, TryWrite(t.Context(), client, "shop"))
	}
	found, err := client.Get(t.Context(), ProbeKey("shop"))
	require.NoError(t, err)
	require.Equal(t, []byte{1}, found.Value)
	client.Cut(true)
	require.ErrorIs(t, TryWrite(t.Context(), client, "shop"), store.ErrUnavailable)
	client.Cut(false)
	require.NoError(t, TryWrite(t.Context(), client, "shop"))
}
