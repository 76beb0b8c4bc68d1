package durablehost

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
)

// TestEventsAreLogged: events that operators may have to act on are logged. The end of a tenure
// that was given up gracefully is not logged.
func TestEventsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newShard(t, memory.New().Client().Shards(), 1, durable.Limits{})
		s.Open(anEpoch)
		tenure := tenureOf(t, s)
		var log bytes.Buffer
		dead := 0
		p := Process{Log: slog.New(slog.NewTextHandler(&log, nil)), GivenUp: func(store.Shard, durable.Tell) { dead++ }}
		for _, tt := range []struct {
			e    durable.Event
			want string // part of the line; "" means none is logged
		}{
			{durable.Event{Kind: durable.Opened}, ""},
			{durable.Event{Kind: durable.Ended}, ""},
			{durable.Event{Kind: durable.Ended, Epoch: anEpoch + 1}, "another home has claimed"},
			{durable.Event{Kind: durable.Ended, Epoch: tenure.Epoch()}, "is given up and claimed again"},
			{durable.Event{Kind: durable.Ended, Epoch: anEpoch + 1, Err: errors.New("full")}, "cannot be opened"},
			{durable.Event{Kind: durable.Resent, N: 3}, "appended again from memory\" shard=Account/70 epoch=3.0.0 appends=3"},
			{durable.Event{Kind: durable.Orphaned, N: 4}, "a checkpoint writes their entities from memory\" shard=Account/70 epoch=3.0.0 appends=4"},
			{durable.Event{Kind: durable.Untrimmed, Err: errors.New("no right")}, "trimming is tried again"},
			{durable.Event{Kind: durable.Untrimmed, Err: errors.New("no right")}, "err=\"no right\" count=2"},
			{durable.Event{Kind: durable.Untrimmed, Err: errors.New("no right")}, ""},
			{durable.Event{Kind: durable.DeadLetter}, ""},
		} {
			log.Reset()
			p.Event(tenure, tt.e)
			if got := log.String(); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%+v: logged %q, want %q", tt.e, got, tt.want)
			}
		}
		if dead != 1 {
			t.Errorf("%d dead letters, want 1", dead)
		}
	})
}
