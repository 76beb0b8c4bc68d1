package conformance

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/store"
)

const leaseName = "dir/lease"

func testLeaseAlone(t *testing.T, h Harness) {
	a := h.Client(t)
	before := time.Now()
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	span := h.TTL - store.Margin(h.TTL)
	if held.Claim != h.claim("a") || held.Token == 0 || held.Until.Before(before.Add(span)) || held.Until.After(time.Now().Add(span)) {
		t.Errorf("got %+v, want the claim with a token, until %v after it was sent", held, span)
	}
}

func testLeaseHeld(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	for range 3 {
		h.wantHeld(t, b, "b", "a")
	}
	must[store.Held](t)(a.Renew(t.Context(), held)) // a refused claim takes nothing away
	forged := held
	forged.Holder = "b"
	_, err := b.Renew(t.Context(), forged)
	wantError(t, "b renews a's", err, store.ErrLost)
	if err := b.Release(t.Context(), forged); err != nil {
		t.Errorf("b releases a lease of a: %v", err)
	}
	h.wantHeld(t, b, "b", "a")
}

func testLeaseReleased(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	for range 2 { // a second release is no error
		if err := a.Release(t.Context(), held); err != nil {
			t.Fatal(err)
		}
	}
	next := must[store.Held](t)(b.Acquire(t.Context(), h.claim("b")))
	if next.Token <= held.Token {
		t.Errorf("token is %d after %d, want a higher one", next.Token, held.Token)
	}
	if err := a.Release(t.Context(), held); err != nil { // a late release
		t.Fatal(err)
	}
	must[store.Held](t)(b.Renew(t.Context(), next))
	_, err := a.Renew(t.Context(), held)
	wantError(t, "a renews what it released", err, store.ErrLost)
}

func testLeaseEnds(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	next, _ := h.takes(t, b, "b")
	if now := time.Now(); now.Before(held.Until.Add(store.Margin(h.TTL))) {
		t.Errorf("b has the lease %v after a had to stop, want at least %v", now.Sub(held.Until), store.Margin(h.TTL))
	}
	if next.Token <= held.Token {
		t.Errorf("token is %d after %d, want a higher one", next.Token, held.Token)
	}
}

func testLeaseRenewed(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	for end := time.Now().Add(3 * h.TTL); time.Now().Before(end); {
		h.wantHeld(t, b, "b", "a")
		h.Wait(h.TTL / 3)
		renewed := must[store.Held](t)(a.Renew(t.Context(), held))
		if renewed.Token != held.Token || !renewed.Until.After(held.Until) {
			t.Fatalf("renewed %+v to %+v, want the same token and a later end", held, renewed)
		}
		held = renewed
	}
}

func testLeaseLost(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	held := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	next, _ := h.takes(t, b, "b")
	_, err := a.Renew(t.Context(), held)
	wantError(t, "a renews", err, store.ErrLost)
	h.wantHeld(t, a, "a", "b")
	if err := b.Release(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	again := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	if again.Token <= next.Token {
		t.Errorf("token is %d after %d, want a higher one", again.Token, next.Token)
	}
	_, err = a.Renew(t.Context(), held)
	wantError(t, "a renews its first holding", err, store.ErrLost)
}

// testLeaseOfTheSameHolder lets a client claim a lease again, as after a lost answer.
func testLeaseOfTheSameHolder(t *testing.T, h Harness) {
	a := h.Client(t)
	first := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	h.Wait(h.TTL / 10)
	second := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	if second.Token < first.Token || !second.Until.After(first.Until) {
		t.Errorf("first %+v, then %+v: want no lower token, and a later end", first, second)
	}
	must[store.Held](t)(a.Renew(t.Context(), second))
}

// testLeaseSucceeded checks that a client that knows the token of a held lease can take over the
// lease from its holder, and that only one client can.
func testLeaseSucceeded(t *testing.T, h Harness) {
	a, b, c := h.Client(t), h.Client(t), h.Client(t)
	over := func(holder string, token uint64) store.Claim {
		claim := h.claim(holder)
		claim.Over = token
		return claim
	}
	first := must[store.Held](t)(a.Acquire(t.Context(), h.claim("a")))
	_, err := b.Acquire(t.Context(), over("b", first.Token+1))
	wantError(t, "b takes over from a holding that never was", err, store.ErrHeld)
	second := must[store.Held](t)(b.Acquire(t.Context(), over("b", first.Token)))
	if second.Token <= first.Token {
		t.Errorf("token is %d after %d, want a higher one", second.Token, first.Token)
	}
	if again := must[store.Held](t)(b.Acquire(t.Context(), over("b", first.Token))); again.Token != second.Token {
		t.Errorf("asking again gave token %d, want the same as before: %d", again.Token, second.Token)
	}
	_, err = c.Acquire(t.Context(), over("c", first.Token))
	wantError(t, "c takes over from a too", err, store.ErrHeld)
	_, err = a.Renew(t.Context(), first)
	wantError(t, "a renews", err, store.ErrLost)
	third := must[store.Held](t)(b.Acquire(t.Context(), over("b", second.Token)))
	if third.Token <= second.Token {
		t.Errorf("b over itself: token is %d after %d, want a higher one", third.Token, second.Token)
	}
	must[store.Held](t)(b.Renew(t.Context(), third))
}

func testLeaseNames(t *testing.T, h Harness) {
	a, b := h.Client(t), h.Client(t)
	for i := range 3 {
		claim := h.claim("a")
		claim.Name = fmt.Sprint("lease", i)
		must[store.Held](t)(a.Acquire(t.Context(), claim))
	}
	must[store.Held](t)(b.Acquire(t.Context(), h.claim("b")))
	if list := must[[]store.Record](t)(a.List(t.Context(), "")); len(list) != 0 {
		t.Errorf("%d records, want none: leases are not records", len(list))
	}
}

func testLeaseBadClaims(t *testing.T, h Harness) {
	a := h.Client(t)
	for _, claim := range []store.Claim{
		{Holder: "a", TTL: h.TTL},
		{Name: "a.b", Holder: "a", TTL: h.TTL},
		{Name: leaseName, TTL: h.TTL},
		{Name: leaseName, Holder: "a"},
		{Name: leaseName, Holder: "a", TTL: -1},
	} {
		_, err := a.Acquire(t.Context(), claim)
		wantError(t, fmt.Sprintf("acquire %+v", claim), err, store.ErrBadClaim)
		_, err = a.Renew(t.Context(), store.Held{Claim: claim, Token: 1})
		wantError(t, fmt.Sprintf("renew %+v", claim), err, store.ErrBadClaim)
		wantError(t, fmt.Sprintf("release %+v", claim), a.Release(t.Context(), store.Held{Claim: claim, Token: 1}), store.ErrBadClaim)
	}
}

// testLeaseContended checks that exactly one of many claims gets the lease.
func testLeaseContended(t *testing.T, h Harness) {
	const candidates = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range candidates {
		c := h.Client(t)
		wg.Go(func() {
			_, err := c.Acquire(t.Context(), h.claim(fmt.Sprint("candidate", i)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				granted++
			} else {
				wantError(t, "acquire", err, store.ErrHeld)
			}
		})
	}
	wg.Wait()
	if granted != 1 {
		t.Errorf("%d of %d candidates got the lease, want 1", granted, candidates)
	}
}
