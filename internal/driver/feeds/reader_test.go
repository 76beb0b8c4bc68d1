package feeds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/core/durable"
	"github.com/shardgen/shardgen/internal/core/feed"
	"github.com/shardgen/shardgen/internal/driver/durablehost"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/memory"
	"github.com/shardgen/shardgen/stream"
	memorystream "github.com/shardgen/shardgen/stream/memory"
)

// A mapper is a Host whose receivers commit each tell, unless silent is set.
type mapper struct {
	f      func(m stream.Message) ([]durable.Tell, error)
	silent bool
}

func (h *mapper) Map(_ context.Context, m stream.Message) ([]durable.Tell, error) { return h.f(m) }

func (h *mapper) Send(_ context.Context, _ int, tells []durable.Tell, _ func(durable.Tell) durablehost.ID, then func([]durable.Tell, feed.Result, error)) {
	if !h.silent {
		go then(tells, feed.Committed, nil)
	}
}

// reading reads partition 0 of source in virtual time while test runs.
func reading(t *testing.T, source stream.Source, h *mapper, test func(t *testing.T, f *Feed, s *memory.Client)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := memory.New().Client()
		f := New(Config{Name: "f", Source: source, Store: s, Host: h, Node: "n", Context: ctx, Log: slog.New(slog.DiscardHandler), Dead: []byte("dead")})
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Read(ctx, 0)
		}()
		test(t, f, s)
		cancel()
		<-done
	})
}

func tellsOf(m stream.Message, n int) (all []durable.Tell) {
	for i := range n {
		all = append(all, durable.Tell{Target: durable.Target{Log: "W"}, Entity: fmt.Sprint(i), Body: m.Data})
	}
	return all
}

func lettersOf(t *testing.T, s *memory.Client) []Letter {
	all, err := Letters(t.Context(), s, "f")
	require.NoError(t, err)
	return all
}

// TestUnfinishedIsBounded: a batch whose messages become many tells exceeds the bound of unfinished
// tells by one message.
func TestUnfinishedIsBounded(t *testing.T) {
	source := memorystream.New(1)
	for range 1024 {
		source.Publish(0, "a", make([]byte, 100))
	}
	h := &mapper{silent: true, f: func(m stream.Message) ([]durable.Tell, error) { return tellsOf(m, 1000), nil }}
	reading(t, source, h, func(t *testing.T, f *Feed, _ *memory.Client) {
		time.Sleep(3 * time.Second)
		require.Equal(t, int64(2000), f.Counts.Waiting.Load())
	})
}

// TestLettersFit: letters are stored whatever the message and its error are, and a binary header is
// what it was.
func TestLettersFit(t *testing.T) {
	source := memorystream.New(1)
	source.Publish(0, "a", []byte(strings.Repeat("\x00", 200<<10)))
	source.Publish(0, "a", []byte("good"))
	h := &mapper{f: func(m stream.Message) ([]durable.Tell, error) {
		if string(m.Data) != "good" {
			return nil, fmt.Errorf("cannot parse %s", m.Data)
		}
		return tellsOf(m, 1), nil
	}}
	reading(t, source, h, func(t *testing.T, f *Feed, s *memory.Client) {
		time.Sleep(10 * time.Second)
		all := lettersOf(t, s)
		require.Len(t, all, 1)
		require.Less(t, len(all[0].Why), 8<<10)
		require.Len(t, all[0].Data, 200<<10)
		require.Equal(t, uint64(1), f.Counts.Done.Load())
	})
	header := map[string][]string{"text": {"x"}, "key": {"\xff\x01", "y"}}
	l := Letter{}
	l.setHeader(header)
	require.Equal(t, header, l.message().Header)
	value, err := json.Marshal(l)
	require.NoError(t, err)
	var got Letter
	require.NoError(t, json.Unmarshal(value, &got))
	require.Equal(t, header, got.message().Header)
	l.setHeader(map[string][]string{"long": {strings.Repeat("\x00", 90<<10)}})
	s := &session{reader: &reader{Feed: New(Config{Name: "f", Store: memory.New().Client()})}}
	require.NoError(t, s.put(t.Context(), "0-1", &l, store.None), "the store refuses its size")
	require.True(t, l.Left)
}

// TestRequeueGoesOn: a letter that cannot be read once is applied later.
func TestRequeueGoesOn(t *testing.T) {
	source := memorystream.New(1)
	for range 3 {
		source.Publish(0, "a", []byte("bad"))
	}
	var mended atomic.Bool
	h := &mapper{f: func(m stream.Message) ([]durable.Tell, error) {
		if !mended.Load() {
			return nil, errors.New("bad")
		}
		return tellsOf(m, 1), nil
	}}
	reading(t, source, h, func(t *testing.T, f *Feed, s *memory.Client) {
		time.Sleep(10 * time.Second)
		all := lettersOf(t, s)
		require.Len(t, all, 3)
		mended.Store(true)
		for _, l := range all {
			require.NoError(t, Requeue(t.Context(), s, "f", l.Name))
		}
		var failed atomic.Bool
		s.Fault(func(o memory.Op) (met memory.Fault) {
			if strings.Contains(o.Key, "/dead/") && !o.Write && failed.CompareAndSwap(false, true) {
				met.Loss = memory.LoseConnection
			}
			return met
		})
		time.Sleep(time.Minute)
		require.True(t, failed.Load())
		require.Empty(t, lettersOf(t, s))
		require.Equal(t, uint64(3), f.Counts.Done.Load())
	})
}

// A stalling source sends nothing while slow is set.
type stalling struct {
	*memorystream.Source
	slow atomic.Bool
}

type stallingMessages struct {
	stream.Messages
	source *stalling
}

func (s *stalling) Open(ctx context.Context, p int, after uint64) (stream.Messages, error) {
	m, err := s.Source.Open(ctx, p, after)
	return &stallingMessages{m, s}, err
}

func (m *stallingMessages) Next(ctx context.Context, n int) ([]stream.Message, error) {
	if m.source.slow.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Messages.Next(ctx, n)
}

// TestSlowSource: a letter has its message, although the source stands still for some seconds.
func TestSlowSource(t *testing.T) {
	source := &stalling{Source: memorystream.New(1)}
	source.Publish(0, "a", []byte("bad"))
	h := &mapper{f: func(stream.Message) ([]durable.Tell, error) {
		source.slow.Store(true)
		time.AfterFunc(2*sentWithin, func() { source.slow.Store(false) })
		return nil, errors.New("bad")
	}}
	reading(t, source, h, func(t *testing.T, _ *Feed, s *memory.Client) {
		time.Sleep(time.Minute)
		all := lettersOf(t, s)
		require.Len(t, all, 1)
		require.Equal(t, "bad", string(all[0].Data))
	})
}
