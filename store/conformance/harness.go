package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Client is one process's connection to the store under test.
type Client = store.Backend

// A Subject is a store under test.
type Subject struct {
	// Bubble runs each test: synctest.Test for a store in virtual time. Nil runs the test without a
	// bubble.
	Bubble func(t *testing.T, f func(*testing.T))
	// Open returns an empty store, which cleans up when the test ends.
	Open func(t *testing.T) Harness
}

// A Harness is one store, empty at first.
type Harness struct {
	// Client opens another connection to the store.
	Client func(t *testing.T) Client
	// TTL is the TTL of the leases in the tests. It should be as short as the store allows.
	TTL time.Duration
	// Wait lets the given time pass.
	Wait func(time.Duration)

	// Stream makes a stream of the server, to which the store publishes messages; nil if the store
	// cannot publish. The stream's duplicate window should be as short as the server allows.
	Stream func(t *testing.T) Stream

	// The following fields are nil if the store cannot provide them; tests that need them are then
	// skipped.

	// Held opens a client whose requests can be held up. A request sent after hold arrives only
	// after release, even if its caller has given up by then.
	Held func(t *testing.T) (c Client, hold, release func())
	// Stale opens a client that reads from a replica. The replica lacks the writes made after lag
	// was called, until catchUp is called.
	Stale func(t *testing.T) (c Client, lag, catchUp func())
	// Restart ends the store's processes and starts them again from their disks. Open clients stay
	// open.
	Restart func(t *testing.T)
}

// Run runs the suite.
func Run(t *testing.T, s Subject) {
	if s.Bubble == nil {
		s.Bubble = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"PutAndGet", testPutAndGet},
		{"Conflict", testConflict},
		{"Delete", testDelete},
		{"RevisionsGrow", testRevisionsGrow},
		{"List", testList},
		{"Ownership", testOwnership},
		{"Limits", testLimits},
		{"BadKeys", testBadKeys},
		{"ContextEnded", testContextEnded},
		{"ConcurrentCounter", testConcurrentCounter},
		{"LeaseAlone", testLeaseAlone},
		{"LeaseHeld", testLeaseHeld},
		{"LeaseReleased", testLeaseReleased},
		{"LeaseEnds", testLeaseEnds},
		{"LeaseRenewed", testLeaseRenewed},
		{"LeaseLost", testLeaseLost},
		{"LeaseOfTheSameHolder", testLeaseOfTheSameHolder},
		{"LeaseSucceeded", testLeaseSucceeded},
		{"LeaseNames", testLeaseNames},
		{"LeaseBadClaims", testLeaseBadClaims},
		{"LeaseContended", testLeaseContended},
		{"Log", testLog},
		{"LogConflict", testLogConflict},
		{"LogClaimed", testLogClaimed},
		{"LogReadWholly", testLogReadWholly},
		{"LogNeverEmpty", testLogNeverEmpty},
		{"LogTrimmed", testLogTrimmed},
		{"LogsOfOthersTrimmed", testLogsOfOthersTrimmed},
		{"LogTrimmedDuringReads", testLogTrimmedDuringReads},
		{"LogContended", testLogContended},
		{"AppendUncertain", testAppendUncertain},
		{"AppendLate", testAppendLate},
		{"Head", testHead},
		{"HeadLate", testHeadLate},
		{"HeadContended", testHeadContended},
		{"RecordsOfShards", testRecordsOfShards},
		{"RecordsAbsent", testRecordsAbsent},
		{"RecordsUnderOldHead", testRecordsUnderOldHead},
		{"RecordsLate", testRecordsLate},
		{"RecordsUnderChangingHead", testRecordsUnderChangingHead},
		{"RecordsListed", testRecordsListed},
		{"RecordsStale", testRecordsStale},
		{"RecordsFresh", testRecordsFresh},
		{"IDs", testIDs},
		{"ShardsApart", testShardsApart},
		{"ShardLimits", testShardLimits},
		{"ShardMisused", testShardMisused},
		{"ShardContextEnded", testShardContextEnded},
		{"ShardOwnership", testShardOwnership},
		{"ShardsRestarted", testShardsRestarted},
		{"Clock", testClock},
		{"Publish", testPublish},
		{"PublishAfterWindow", testPublishAfterWindow},
		{"PublishErrors", testPublishErrors},
		{"PublishUncertain", testPublishUncertain},
		{"Send", testSend},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Bubble(t, func(t *testing.T) { test.run(t, s.Open(t)) })
		})
	}
}

// wantError checks that err is want, and is a [*store.Error].
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

func (h Harness) claim(holder string) store.Claim {
	return store.Claim{Name: leaseName, Holder: holder, TTL: h.TTL}
}

// patience bounds a candidate's wait for an ended lease. It is twice the necessary time, because
// the store may watch the lease only from the first request.
func (h Harness) patience() time.Duration { return 2*(h.TTL+store.Margin(h.TTL)) + h.TTL }

func (h Harness) takes(t *testing.T, c Client, holder string) (store.Held, time.Duration) {
	t.Helper()
	began := time.Now()
	for {
		held, err := c.Acquire(t.Context(), h.claim(holder))
		waited := time.Since(began)
		if err == nil {
			return held, waited
		}
		if !errors.Is(err, store.ErrHeld) || waited > h.patience() {
			t.Fatalf("%s: after %v: %v", holder, waited, err)
		}
		h.Wait(h.TTL / 10)
	}
}

func (h Harness) wantHeld(t *testing.T, c Client, holder, by string) {
	t.Helper()
	_, err := c.Acquire(t.Context(), h.claim(holder))
	wantError(t, holder+" acquires", err, store.ErrHeld)
	var held *store.HeldError
	if !errors.As(err, &held) || held.Holder != "" && held.Holder != by || held.RetryAfter < 0 || held.RetryAfter > h.patience() {
		t.Errorf("%s acquires: got %v, want a *store.HeldError about %s", holder, err, by)
	}
}

// heldFor is how long callers wait for a held-up request.
const heldFor = 200 * time.Millisecond

// held calls the function hold, which holds up requests, and then f, whose outcome must be
// uncertain.
func held(t *testing.T, hold func(), what string, f func(context.Context) error) {
	t.Helper()
	hold()
	ctx, cancel := context.WithTimeout(t.Context(), heldFor)
	defer cancel()
	wantError(t, what, f(ctx), store.ErrUncertain)
}
