package conformance

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

func testServeOnAndOff(t *testing.T, h Harness) {
	a, outside := openMember(t, h, "a"), openClient(t, h, "outside")
	outside.wantAnycastRefused(1) // a fresh link does not serve
	a.wantAnycastRefused(2)
	for range 3 {
		for range 2 { // a second call changes nothing
			a.serve(true)
			outside.anycast(3, "from outside")
			a.want(transport.Control, transport.Anycast, "from outside")
			a.anycast(4, "from a")
			a.want(transport.Control, transport.Anycast, "from a")
		}
		for range 2 {
			a.serve(false)
			outside.wantAnycastRefused(5)
			a.wantAnycastRefused(6)
		}
	}
	outside.send(transport.Control, a, 0, "all else goes on")
	a.want(transport.Control, transport.Direct, "all else goes on")
	a.wantNothing(transport.Control)
	outside.wantNothing(transport.Control)
}

func testServeOneOfTwo(t *testing.T, h Harness) {
	a, b, outside := openMember(t, h, "a"), openMember(t, h, "b"), openClient(t, h, "outside")
	const n = 20
	for _, serves := range []*process{a, b} {
		serves.serve(true)
		for i := range n {
			outside.anycast(uint64(i), "any")
		}
		for range n {
			serves.want(transport.Control, transport.Anycast, "any")
		}
		serves.serve(false)
	}
	for _, m := range []*process{a, b} {
		outside.send(transport.Control, m, 0, "behind")
		m.want(transport.Control, transport.Direct, "behind")
	}
	b.serve(true)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// The broker may take a moment to notice a closed connection.
	for token, end := uint64(1), time.Now().Add(patience); ; token++ {
		if time.Now().After(end) {
			t.Fatalf("anycasts are still taken after %v", patience)
		}
		outside.anycast(token, "still there?")
		outside.flush(transport.Control)
		if got, ok := outside.TryReceive(transport.Control); ok {
			outside.checkUnreachable(transport.Control, got, transport.Address{}, token)
			break
		}
	}
}

func testServeKeepsWhatWasRouted(t *testing.T, h Harness) {
	a, outside := openMember(t, h, "a"), openClient(t, h, "outside")
	a.serve(true)
	const n = 1000
	for i := range n {
		outside.anycast(uint64(i), "any")
	}
	outside.flush(transport.Control)
	a.serve(false)
	for range n {
		a.want(transport.Control, transport.Anycast, "any")
	}
	outside.wantAnycastRefused(n)
}

// testServeReconnected checks that a link still serves after a reconnect.
func testServeReconnected(t *testing.T, h Harness) {
	a, b, outside := openMember(t, h, "a"), openMember(t, h, "b"), openClient(t, h, "outside")
	a.serve(true)
	for range 2 {
		restart(h, a, b, outside)
		for range 10 {
			outside.anycast(1, "any")
			a.want(transport.Control, transport.Anycast, "any")
		}
	}
	a.serve(false)
	outside.wantAnycastRefused(2)
	restart(h, a, b, outside)
	outside.wantAnycastRefused(3)
	b.wantNothing(transport.Control)
}

func restart(h Harness, all ...*process) {
	h.StopBroker()
	for _, m := range all {
		m.wantState(transport.Control, false)
	}
	h.StartBroker()
	for _, m := range all {
		m.wantState(transport.Control, true)
	}
}

// testServeDisconnected checks that Serve without a connection takes effect at the next connection.
func testServeDisconnected(t *testing.T, h Harness) {
	a, b, outside := openMember(t, h, "a"), openMember(t, h, "b"), openClient(t, h, "outside")
	all := []*process{a, b, outside}
	a.serve(true)
	h.StopBroker()
	for _, m := range all {
		m.wantState(transport.Control, false)
	}
	a.serve(false)
	b.serve(true)
	h.StartBroker()
	for _, m := range all {
		m.wantState(transport.Control, true)
	}
	for range 10 {
		outside.anycast(1, "any")
		b.want(transport.Control, transport.Anycast, "any")
	}
	a.wantNothing(transport.Control)
}

func testServeClient(t *testing.T, h Harness) {
	a, outside := openMember(t, h, "a"), openClient(t, h, "outside")
	for _, on := range []bool{true, false} {
		if err := outside.Serve(t.Context(), on); err == nil {
			t.Errorf("serve %v of a client: no error", on)
		}
	}
	a.wantAnycastRefused(1)
	outside.wantNothing(transport.Control)
}

func testServeEnded(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "serve", a.Serve(ended, true), context.Canceled)
	a.serve(true) // as if for the first time
	a.anycast(1, "any")
	a.want(transport.Control, transport.Anycast, "any")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "serve", a.Serve(t.Context(), true), transport.ErrClosed)
	wantError(t, "serve no more", a.Serve(t.Context(), false), transport.ErrClosed)
}

// testServeConcurrently checks that concurrent calls run one after another, even during restarts
// and a close.
func testServeConcurrently(t *testing.T, h Harness) {
	a, outside := openMember(t, h, "a"), openClient(t, h, "outside")
	var wg sync.WaitGroup
	start := func() (stop func()) {
		quit := make(chan struct{})
		for i := range 4 {
			wg.Go(func() {
				for on := i%2 == 0; ; on = !on {
					select {
					case <-quit:
						return
					default:
					}
					err := a.Serve(t.Context(), on)
					if errors.Is(err, transport.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("serve %v: %v", on, err)
						return
					}
				}
			})
		}
		return func() {
			close(quit)
			wg.Wait()
		}
	}
	stop := start()
	for range 2 {
		restart(h, a, outside)
	}
	stop()
	a.serve(true)
	outside.anycast(1, "any")
	a.want(transport.Control, transport.Anycast, "any")
	a.serve(false)
	outside.wantAnycastRefused(2)
	start()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait() // each call has returned ErrClosed
}
