package natsstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/stream"
	"github.com/shardgen/shardgen/stream/conformance"
	natsstream "github.com/shardgen/shardgen/stream/nats"
)

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start(t testing.TB, cfg jetstream.StreamConfig) (*natsproc.Server, jetstream.JetStream) {
	t.Helper()
	server := natsproc.Start(t, "-js", "-sd", t.TempDir())
	nc, err := nats.Connect(server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(within(t), cfg); err != nil {
		t.Fatal(err)
	}
	return server, js
}

func publish(t testing.TB, js jetstream.JetStream, subject string, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if _, err := js.PublishAsync(subject, []byte(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}

func open(t testing.TB, url string, cfg natsstream.Config) *natsstream.Source {
	t.Helper()
	s, err := natsstream.Open(within(t), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// read reads until the message at position to.
func read(t testing.TB, m stream.Messages, to uint64) (all []stream.Message) {
	t.Helper()
	for len(all) == 0 || all[len(all)-1].Position < to {
		some, err := m.Next(within(t), 700)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 || len(some) > 700 {
			t.Fatalf("got %d messages, want 1 to 700", len(some))
		}
		all = append(all, some...)
	}
	return all
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		cfg := jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}}
		server, js := start(t, cfg)
		return conformance.Harness{
			Source: open(t, server.URL(), natsstream.Config{Stream: "S", Subjects: []string{"s.0", "s.1"}}),
			Publish: func(t *testing.T, partition int, data ...string) {
				t.Helper()
				for _, d := range data {
					if _, err := js.PublishAsync(fmt.Sprint("s.", partition), []byte(d)); err != nil {
						t.Fatal(err)
					}
				}
				<-js.PublishAsyncComplete()
			},
			Delete: func(t *testing.T, _ int, to uint64) {
				t.Helper()
				s, err := js.Stream(within(t), "S")
				if err == nil {
					err = s.Purge(within(t), jetstream.WithPurgeSequence(to+1))
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			Remake: func(t *testing.T) {
				t.Helper()
				err := js.DeleteStream(within(t), "S")
				if err == nil {
					_, err = js.CreateStream(within(t), cfg)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			Restart: func(t *testing.T) {
				t.Helper()
				if err := errors.Join(server.Kill(), server.Start()); err != nil {
					t.Fatal(err)
				}
				ctx := within(t)
				for js.Conn().FlushWithContext(ctx) != nil {
					if ctx.Err() != nil {
						t.Fatal("the publisher does not connect again")
					}
				}
			},
		}
	})
}

// TestRead reads all messages, from any position, one partition at a time.
func TestRead(t *testing.T) {
	server, js := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"}})
	for i := range 5 {
		publish(t, js, fmt.Sprint("s.", i%2), i*1000+1, i*1000+1000)
	}
	s := open(t, server.URL(), natsstream.Config{Stream: "S"})
	m, err := s.Open(within(t), 0, 17)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, one := range read(t, m, 5000) {
		if want := uint64(18 + i); one.Position != want || string(one.Data) != fmt.Sprint(want) || one.Subject != fmt.Sprint("s.", (want-1)/1000%2) || time.Since(one.Time) > time.Hour {
			t.Fatalf("got %+v, want position %d", one, want)
		}
	}
	parts := open(t, server.URL(), natsstream.Config{Stream: "S", Subjects: []string{"s.0", "s.1"}})
	if got := parts.Partitions(); got != 2 {
		t.Fatalf("got %d partitions, want 2", got)
	}
	p, err := parts.Open(within(t), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if all := read(t, p, 4000); len(all) != 2000 || all[0].Position != 1001 {
		t.Fatalf("got %d messages from %d on, want 2000 from 1001 on", len(all), all[0].Position)
	}
	if end, err := s.End(within(t), 0); err != nil || end != 5000 {
		t.Fatalf("the stream ends at %d, %v; want 5000", end, err)
	}
	if end, err := parts.End(within(t), 1); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("a subject ends at %d, %v; want an error, because JetStream does not say", end, err)
	}
}

// TestMissed counts messages that were deleted before they were read.
func TestMissed(t *testing.T) {
	server, js := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxMsgs: 10})
	publish(t, js, "s", 1, 25)
	s := open(t, server.URL(), natsstream.Config{Stream: "S"})
	m, err := s.Open(within(t), 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	stored, err := js.Stream(within(t), "S")
	if err == nil {
		err = stored.DeleteMsg(within(t), 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if all := read(t, m, 25); len(all) != 9 || m.Missed() != 11 {
		t.Fatalf("got %d messages and %d missed, want 9 and 11", len(all), m.Missed())
	}
}

// TestRemade: a stream that was made again has a new identity. Open at a position behind a stream's
// end is refused.
func TestRemade(t *testing.T) {
	server, js := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	publish(t, js, "s", 1, 3)
	s := open(t, server.URL(), natsstream.Config{Stream: "S"})
	before, err := s.Identity(within(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Open(within(t), 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := js.DeleteStream(within(t), "S"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Next(within(t), 1); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want an error that the stream is gone", err)
	}
	if _, err := js.CreateStream(within(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Identity(within(t)); err != nil || after == before {
		t.Fatalf("got identity %q, %v, want another than %q", after, err, before)
	}
	if _, err := s.Open(within(t), 0, 3); !errors.Is(err, stream.ErrRewound) {
		t.Fatalf("got %v, want ErrRewound", err)
	}
}

// TestRefused: retentions that delete acknowledged messages are refused.
func TestRefused(t *testing.T) {
	server, _ := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Retention: jetstream.WorkQueuePolicy})
	for name, c := range map[string]struct {
		cfg  natsstream.Config
		want string
	}{
		"work queue": {natsstream.Config{Stream: "S"}, "its retention is workqueue: want limits"},
		"no stream":  {natsstream.Config{Stream: "T"}, "stream not found"},
		"no name":    {natsstream.Config{}, "want the name of a stream"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := natsstream.Open(within(t), server.URL(), c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestServerRestarts: reading fails when the server ends, and can begin again at the last position.
func TestServerRestarts(t *testing.T) {
	server, js := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	publish(t, js, "s", 1, 100)
	s := open(t, server.URL(), natsstream.Config{Stream: "S"})
	m, err := s.Open(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	read(t, m, 100)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Next(within(t), 1); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want an error that the connection was lost", err)
	}
	m.Close()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for ctx := within(t); ; {
		if m, err = s.Open(ctx, 0, 100); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	defer m.Close()
	publish(t, js, "s", 101, 200)
	if all := read(t, m, 200); len(all) != 100 {
		t.Fatalf("got %d messages, want 100", len(all))
	}
}

// TestLarge: a reader of large messages has only a few in memory, and reads all.
func TestLarge(t *testing.T) {
	server, js := start(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	const n, size = 60, 1<<20 - 100
	for range n {
		if _, err := js.Publish(within(t), "s", make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	m, err := open(t, server.URL(), natsstream.Config{Stream: "S"}).Open(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for range 2 { // the second call requests more than it returns
		if some, err := m.Next(within(t), 1); err != nil || len(some) != 1 {
			t.Fatalf("got %d messages, %v, want 1", len(some), err)
		}
	}
	s, err := js.Stream(within(t), "S")
	if err != nil {
		t.Fatal(err)
	}
	left := uint64(0)
	for same := 0; same < 20; same++ { // until the server sends no more
		for c := range s.ListConsumers(within(t)).Info() {
			if c.NumPending != left {
				left, same = c.NumPending, 0
			}
		}
	}
	if left < n-20 {
		t.Fatalf("the reader has %d messages of 1 MiB, want at most 20", n-left)
	}
	read(t, m, n)
}
