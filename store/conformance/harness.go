package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

// A Client is one process's way to the store under test.
type Client interface {
	store.Store
	store.Lease
}

// A Subject is a store under test.
type Subject struct {
	// Bubble runs each test, synctest.Test for a store in virtual time; nil runs it
	// as it is.
	Bubble func(t *testing.T, f func(*testing.T))
	// Open returns a store with nothing in it, which cleans up after itself when
	// the test ends.
	Open func(t *testing.T) Harness
}

// A Harness is one store with nothing in it.
type Harness struct {
	// Client opens one more way to the store.
	Client func(t *testing.T) Client
	// TTL is that of the leases in the tests: as short as the store allows.
	TTL time.Duration
	// Wait lets time pass.
	Wait func(time.Duration)
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
	} {
		t.Run(test.name, func(t *testing.T) {
			s.Bubble(t, func(t *testing.T) { test.run(t, s.Open(t)) })
		})
	}
}

// wantError checks the cause, and that the error is of the promised type.
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
