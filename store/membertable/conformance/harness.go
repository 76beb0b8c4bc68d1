// Package conformance is the suite that every membership table passes. It is imported by tests
// only.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/store/membertable"
)

// A Subject is a table under test.
type Subject struct {
	// Bubble runs each test: synctest.Test for a table in virtual time; nil means no bubble.
	Bubble func(t *testing.T, f func(*testing.T))
	// Open returns an empty store, which cleans up when the test ends.
	Open func(t *testing.T) Harness
}

// A Harness is one store, empty at first.
type Harness struct {
	// Client opens another connection to the table of a cluster.
	Client func(t *testing.T, cluster string) membertable.Table
	// Wait lets time pass.
	Wait func(time.Duration)
	// Hang is how long a test lets a process hang between reading and writing.
	Hang time.Duration
	// Rows is how many rows the test of large tables writes, and Largest how many rows of MaxRow
	// bytes the test of large rows writes. Defaults 10,000 and 40; set less only for documented
	// limits.
	Rows, Largest int

	// The fields below may be nil; tests that need them are then skipped.

	// Held opens a client whose requests can be held up, as by a [Dialer]: a request sent after
	// hold arrives only after release, even if its caller has given up.
	Held func(t *testing.T, cluster string) (c membertable.Table, hold, release func())
	// Deaf opens a client that hears no answers between deafen and hear. Its requests arrive.
	Deaf func(t *testing.T, cluster string) (c membertable.Table, deafen, hear func())
	// Restart ends the store's processes and starts them again from their disks. Open clients stay
	// open.
	Restart func(t *testing.T)

	raw func(t *testing.T, cluster string) membertable.Table // Client without fresh
}

const cluster = "test"

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	if s.Bubble == nil {
		s.Bubble = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Empty", testEmpty},
		{"WriteAndRead", testWriteAndRead},
		{"WriteMany", testWriteMany},
		{"Conflict", testConflict},
		{"Since", testSince},
		{"Delete", testDelete},
		{"Alive", testAlive},
		{"Ownership", testOwnership},
		{"Limits", testLimits},
		{"LargestRows", testLargestRows},
		{"BadNames", testBadNames},
		{"TablesApart", testTablesApart},
		{"ContextEnded", testContextEnded},
		{"ConcurrentVotes", testConcurrentVotes},
		{"Snapshots", testSnapshots},
		{"Hang", testHang},
		{"Late", testLate},
		{"LateDelete", testLateDelete},
		{"AnswerLost", testAnswerLost},
		{"Restarted", testRestarted},
		{"ManyRows", testManyRows},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Bubble(t, func(t *testing.T) {
				h := s.Open(t)
				h.Rows, h.Largest = cmp.Or(h.Rows, 10_000), cmp.Or(h.Largest, 40)
				test.run(t, h.fresh())
			})
		})
	}
}

// A fresh client repeats each read until it sees the last answered write of any client, because a
// table may answer with a former state.
type fresh struct {
	membertable.Table
	wait func(time.Duration)
	last *atomic.Uint64 // version
}

// freshWithin bounds how long reads may return a former state.
const freshWithin = 10 * time.Second

func (h Harness) fresh() Harness {
	last := make(map[string]*atomic.Uint64)
	wrap := func(c membertable.Table, cluster string) membertable.Table {
		if last[cluster] == nil {
			last[cluster] = new(atomic.Uint64)
		}
		return fresh{c, h.Wait, last[cluster]}
	}
	with := func(open func(*testing.T, string) (membertable.Table, func(), func())) func(*testing.T, string) (membertable.Table, func(), func()) {
		if open == nil {
			return nil
		}
		return func(t *testing.T, cluster string) (membertable.Table, func(), func()) {
			c, on, off := open(t, cluster)
			return wrap(c, cluster), on, off
		}
	}
	h.raw = h.Client
	h.Client = func(t *testing.T, cluster string) membertable.Table { return wrap(h.raw(t, cluster), cluster) }
	h.Held, h.Deaf = with(h.Held), with(h.Deaf)
	return h
}

func (f fresh) Read(ctx context.Context, since membertable.Version) (membertable.Snapshot, error) {
	last := membertable.Version(f.last.Load())
	for began := time.Now(); ; f.wait(time.Millisecond) {
		s, err := f.Table.Read(ctx, since)
		if err != nil || s.Version >= last {
			return s, err
		}
		if time.Since(began) > freshWithin {
			return s, fmt.Errorf("a read returned version %d of the table after version %d was written", s.Version, last)
		}
	}
}

func (f fresh) Write(ctx context.Context, expect membertable.Version, rows ...membertable.Row) (membertable.Version, error) {
	return f.wrote(f.Table.Write(ctx, expect, rows...))
}

func (f fresh) Delete(ctx context.Context, expect membertable.Version, ids []membertable.ID) (membertable.Version, error) {
	return f.wrote(f.Table.Delete(ctx, expect, ids))
}

func (f fresh) wrote(v membertable.Version, err error) (membertable.Version, error) {
	for err == nil {
		last := f.last.Load()
		if uint64(v) <= last || f.last.CompareAndSwap(last, uint64(v)) {
			break
		}
	}
	return v, err
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	var typed *store.Error
	if !errors.Is(err, want) || !errors.As(err, &typed) {
		t.Errorf("%s: got error %v, want a *store.Error that is %v", what, err, want)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// heldFor is how long callers wait for a held-up answer.
const heldFor = 200 * time.Millisecond

// unanswered runs f, whose outcome must be uncertain, while its request or answer is held up.
func unanswered(t *testing.T, what string, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), heldFor)
	defer cancel()
	wantError(t, what, f(ctx), store.ErrUncertain)
}
