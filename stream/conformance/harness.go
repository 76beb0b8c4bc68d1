// Package conformance is the suite that every source of streams passes. It is imported by tests only.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardgen/shardgen/stream"
)

// A Harness is one source under test, without messages at first. It cleans up after itself when the
// test ends.
type Harness struct {
	// Source has at least 2 partitions.
	Source stream.Source
	// Publish appends messages to a partition, in order.
	Publish func(t *testing.T, partition int, data ...string)
	// Delete deletes a partition's messages whose positions are at most to.
	Delete func(t *testing.T, partition int, to uint64)
	// Remake deletes the stream and makes it again, without messages.
	Remake func(t *testing.T)
	// Restart kills the system's process with SIGKILL and starts it again, or has the same effect.
	// If Restart is nil, restarts are not tested.
	Restart func(t *testing.T)
}

// Run runs the suite. open returns a new Harness for each test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Read", testRead},
		{"Wait", testWait},
		{"Deleted", testDeleted},
		{"Remade", testRemade},
		{"Restart", testRestart},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, s stream.Source, partition int, after uint64) stream.Messages {
	t.Helper()
	m, err := s.Open(within(t), partition, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// read calls Next until it has n messages. Each call must return at least 1 and no more than the
// number most.
func read(t *testing.T, m stream.Messages, n, most int) (all []stream.Message) {
	t.Helper()
	for len(all) < n {
		some, err := m.Next(within(t), most)
		switch {
		case err != nil:
			t.Fatalf("after %d of %d messages: %v", len(all), n, err)
		case len(some) == 0 || len(some) > most:
			t.Fatalf("got %d messages, want 1 to %d", len(some), most)
		}
		all = append(all, some...)
	}
	last := uint64(0)
	for _, one := range all {
		if one.Position <= last {
			t.Fatalf("position %d follows %d", one.Position, last)
		}
		last = one.Position
	}
	return all
}

func check(t *testing.T, got []stream.Message, want ...string) {
	t.Helper()
	var data []string
	for _, m := range got {
		data = append(data, string(m.Data))
		if m.Subject == "" || time.Since(m.Time) > time.Hour {
			t.Fatalf("message %d has the subject %q and the time %v", m.Position, m.Subject, m.Time)
		}
	}
	if !slices.Equal(data, want) {
		t.Fatalf("got %d messages, first %.5q, want %d, first %.5q", len(data), data, len(want), want)
	}
}

func numbers(from, to int) (all []string) {
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// identity returns the source's identity.
func identity(t *testing.T, s stream.Source) string {
	t.Helper()
	id, err := s.Identity(within(t))
	if err != nil || id == "" {
		t.Fatalf("got identity %q, %v", id, err)
	}
	return id
}

// testRead reads each partition from several positions, with two readers at the same time. Both
// read the same messages.
func testRead(t *testing.T, h Harness) {
	if got := h.Source.Partitions(); got < 2 {
		t.Fatalf("got %d partitions, want at least 2", got)
	}
	id := identity(t, h.Source)
	h.Publish(t, 0, numbers(1, 1500)...)
	h.Publish(t, 1, numbers(1501, 2500)...)
	h.Publish(t, 0, numbers(2501, 3000)...)
	first := slices.Concat(numbers(1, 1500), numbers(2501, 3000))
	all := read(t, start(t, h.Source, 0, 0), 2000, 700)
	check(t, all, first...)
	check(t, read(t, start(t, h.Source, 1, 0), 1000, 700), numbers(1501, 2500)...)
	if s, ok := h.Source.(stream.Ended); ok {
		if end, err := s.End(within(t), 0); !errors.Is(err, errors.ErrUnsupported) && (err != nil || end != all[1999].Position) {
			t.Fatalf("partition 0 ends at %d, %v; want %d", end, err, all[1999].Position)
		}
	}
	for _, skip := range []int{1, 700, 1999} {
		m := start(t, h.Source, 0, all[skip-1].Position)
		some := read(t, m, 2000-skip, 10_000)
		check(t, some, first[skip:]...)
		if some[0].Position != all[skip].Position {
			t.Fatalf("message %d has position %d, and had %d before", skip+1, some[0].Position, all[skip].Position)
		}
		m.Close()
		m.Close()
	}
	if got := identity(t, h.Source); got != id {
		t.Fatalf("got identity %q, want %q as before", got, id)
	}
	_, err := h.Source.Open(within(t), 0, all[1999].Position+1_000_000)
	if !errors.Is(err, stream.ErrRewound) {
		t.Fatalf("got %v at a position that the stream has never had, want ErrRewound", err)
	}
}

// testWait: Next waits for messages of its partition, and fails when its context ends.
func testWait(t *testing.T, h Harness) {
	h.Publish(t, 0, "1")
	m := start(t, h.Source, 0, 0)
	check(t, read(t, m, 1, 10), "1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if some, err := m.Next(ctx, 10); err == nil {
		t.Fatalf("got %v, want an error because the context has ended", some)
	}
	m = start(t, h.Source, 0, read(t, start(t, h.Source, 0, 0), 1, 10)[0].Position)
	got := make(chan []stream.Message, 1)
	go func() {
		some, _ := m.Next(within(t), 10)
		got <- some
	}()
	h.Publish(t, 1, "3")
	h.Publish(t, 0, "2")
	check(t, <-got, "2")
}

// testDeleted: messages that were deleted before they were read are counted, and the other messages
// are read.
func testDeleted(t *testing.T, h Harness) {
	h.Publish(t, 0, numbers(1, 20)...)
	all := read(t, start(t, h.Source, 0, 0), 20, 20)
	h.Delete(t, 0, all[9].Position)
	m := start(t, h.Source, 0, all[4].Position)
	check(t, read(t, m, 10, 100), numbers(11, 20)...)
	if got := m.Missed(); got != 5 {
		t.Fatalf("got %d missed, want 5", got)
	}
	h.Delete(t, 0, all[19].Position)
	m = start(t, h.Source, 0, all[14].Position) // the stream is empty, but has had the position
	h.Publish(t, 0, "21")
	some := read(t, m, 1, 10)
	check(t, some, "21")
	if got := m.Missed(); got != 5 {
		t.Fatalf("got %d missed, want 5", got)
	}
	if some[0].Position <= all[19].Position {
		t.Fatalf("position %d names another message", some[0].Position)
	}
	m = start(t, h.Source, 0, some[0].Position)
	if got := m.Missed(); got != 0 {
		t.Fatalf("got %d missed, want 0", got)
	}
}

// testRemade: a stream that was made again has a new identity. Readers of the former stream do not
// read the new stream's messages.
func testRemade(t *testing.T, h Harness) {
	h.Publish(t, 0, numbers(1, 10)...)
	id := identity(t, h.Source)
	m := start(t, h.Source, 0, 0)
	all := read(t, m, 10, 10)
	idle := start(t, h.Source, 0, all[4].Position) // has read nothing yet
	h.Remake(t)
	if got := identity(t, h.Source); got == id {
		t.Fatalf("got identity %q as before", got)
	}
	if _, err := h.Source.Open(within(t), 0, all[9].Position); !errors.Is(err, stream.ErrRewound) {
		t.Fatalf("got %v at a position of the former stream, want ErrRewound", err)
	}
	h.Publish(t, 0, numbers(101, 120)...)
	for _, m := range []stream.Messages{m, idle} {
		for {
			some, err := m.Next(within(t), 10)
			if err != nil {
				break
			}
			if data := string(some[0].Data); len(data) > 2 {
				t.Fatalf("a reader of the former stream got %q", data)
			}
		}
	}
	check(t, read(t, start(t, h.Source, 0, 0), 20, 10), numbers(101, 120)...)
}

// testRestart: after a restart of the system, reading goes on, or fails and can begin again at the
// last position.
func testRestart(t *testing.T, h Harness) {
	if h.Restart == nil {
		t.Skip("the harness has no Restart")
	}
	id := identity(t, h.Source)
	h.Publish(t, 0, numbers(1, 10)...)
	m := start(t, h.Source, 0, 0)
	last := read(t, m, 10, 10)[9].Position
	h.Restart(t)
	h.Publish(t, 0, numbers(11, 20)...)
	var all []stream.Message
	for ctx := within(t); len(all) < 10; {
		some, err := m.Next(ctx, 10)
		if err == nil {
			all, last = append(all, some...), some[len(some)-1].Position
			continue
		}
		m.Close()
		for m, err = h.Source.Open(ctx, 0, last); err != nil; m, err = h.Source.Open(ctx, 0, last) {
			if errors.Is(err, stream.ErrRewound) || ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(m.Close)
	}
	check(t, all, numbers(11, 20)...)
	if got := identity(t, h.Source); got != id {
		t.Fatalf("got identity %q, want %q as before", got, id)
	}
}
