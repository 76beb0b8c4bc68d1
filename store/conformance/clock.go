package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

// clockRate is the largest difference in speed, in percent, that a test permits between the store's
// clock and this process's. Clocks that are being slewed differ by less.
const clockRate = 10

// testClock checks a store that implements [store.Clock]: whichever client asks, the store's time
// never goes back, and passes as fast as the time of this process. The two times may differ by
// years.
func testClock(t *testing.T, h Harness) {
	clients := [2]Client{h.Client(t), h.Client(t)}
	if _, ok := clients[0].(store.Clock); !ok {
		t.Skip("the store has no clock")
	}
	now := func(c Client) time.Time {
		t.Helper()
		at, err := c.(store.Clock).Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if at.IsZero() {
			t.Fatal("the time is zero")
		}
		return at
	}
	before := time.Now()
	first := now(clients[0])
	after := time.Now()
	last := first
	for i := range 20 {
		at := now(clients[i%2])
		if at.Before(last) {
			t.Fatalf("the time went back, from %v to %v", last, at)
		}
		last = at
		h.Wait(h.TTL / 20)
	}
	sent := time.Now()
	second := now(clients[1])
	least, most := sent.Sub(after), time.Since(before)
	if passed := second.Sub(first); passed < least-least*clockRate/100 || passed > most+most*clockRate/100 {
		t.Errorf("%v passed, want %v to %v", passed, least, most)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := clients[0].(store.Clock).Now(ended)
	wantError(t, "now", err, store.ErrUnavailable)
	wantError(t, "now", err, context.Canceled)
}
