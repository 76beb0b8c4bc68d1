package conformance

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/shardgen/shardgen/transport"
)

func testOrder(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	const n = 1000
	for _, ch := range channels {
		for i := range n {
			a.send(ch, b, 0, fmt.Sprint(i))
		}
	}
	for _, ch := range channels {
		for i := range n {
			b.want(ch, transport.Direct, fmt.Sprint(i))
		}
	}
}

func testConcurrentSends(t *testing.T, h Harness) {
	b := openMember(t, h, "b")
	const senders, each = 4, 200
	var wg sync.WaitGroup
	errs := make(chan error, 2*senders)
	for s := range senders {
		a := openMember(t, h, fmt.Sprint("a", s))
		for g := range 2 { // two goroutines share a link
			wg.Go(func() {
				for i := range each {
					if err := a.Send(0, b.peer(), 0, fmt.Appendf(nil, "%d/%d %d", s, g, i)); err != nil {
						errs <- err
						return
					}
				}
			})
		}
	}
	next := map[string]int{}
	for range 2 * senders * each {
		m, err := b.Receive(0)
		if err != nil {
			t.Fatal(err)
		}
		var i int
		sender, number, _ := strings.Cut(string(m.Payload), " ")
		if _, err := fmt.Sscan(number, &i); err != nil || i != next[sender] {
			t.Fatalf("from %s: got %s, want %d", sender, number, next[sender])
		}
		next[sender]++
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	b.wantNothing(0)
}

// testReceiverHandover checks that no message is lost or reordered between receivers.
func testReceiverHandover(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	const n = 300
	turn := make(chan int, 1)
	done := make(chan error, 2)
	for range 2 {
		go func() {
			for i := range turn {
				m, err := b.Receive(1)
				if err == nil && string(m.Payload) != fmt.Sprint(i) {
					err = fmt.Errorf("turn %d received %q", i, m.Payload)
				}
				if err != nil || i == n-1 {
					close(turn)
					done <- err
					return
				}
				turn <- i + 1
			}
			done <- nil
		}()
	}
	turn <- 0
	for i := range n {
		a.send(1, b, 0, fmt.Sprint(i))
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func testChannelsApart(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	for _, ch := range channels {
		a.send(ch, b, 0, fmt.Sprint("on ", ch))
		a.flush(ch)
	}
	for _, ch := range channels {
		b.want(ch, transport.Direct, fmt.Sprint("on ", ch))
		b.wantNothing(ch)
		a.wantNothing(ch)
	}
}

func testPayloadOwnership(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	buffer := []byte("first")
	for _, text := range []string{"first", "other"} {
		copy(buffer, text)
		if err := a.Send(0, b.peer(), 0, buffer); err != nil {
			t.Fatal(err)
		}
		if err := a.Broadcast(buffer); err != nil {
			t.Fatal(err)
		}
	}
	copy(buffer, "XXXXX")
	one, err := b.receive(0)
	if err != nil || string(one.Payload) != "first" {
		t.Fatalf("received %q, %v, want first", one.Payload, err)
	}
	two, err := b.receive(0)
	if err != nil || string(two.Payload) != "other" {
		t.Fatalf("received %q, %v, want other", two.Payload, err)
	}
	if string(one.Payload) != "first" {
		t.Fatalf("a received payload was overwritten by the next: %q", one.Payload)
	}
	mine, err := a.receive(transport.Control)
	if err != nil {
		t.Fatal(err)
	}
	clear(mine.Payload) // receivers share no memory
	b.want(transport.Control, transport.Broadcast, "first")
	b.want(transport.Control, transport.Broadcast, "other")
}

// testEmptyPayload checks that an empty payload is not taken for Unreachable.
func testEmptyPayload(t *testing.T, h Harness) {
	a, c := openMember(t, h, "a"), openClient(t, h, "c")
	for _, ch := range channels {
		a.send(ch, c, 7, "")
		c.send(ch, a, 7, "")
		c.want(ch, transport.Direct, "")
		a.want(ch, transport.Direct, "")
	}
}

func testTooLarge(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	limit := a.MaxPayload()
	if limit < 1<<10 {
		t.Fatalf("max payload is %d", limit)
	}
	most := bytes.Repeat([]byte("x"), limit)
	for _, ch := range channels {
		wantError(t, "send", a.Send(ch, b.peer(), 1, append(most, 'y')), transport.ErrTooLarge)
		if err := a.Send(ch, b.peer(), 1, most); err != nil {
			t.Fatalf("send %d bytes: %v", len(most), err)
		}
		b.want(ch, transport.Direct, string(most))
	}
	wantError(t, "broadcast", a.Broadcast(append(most, 'y')), transport.ErrTooLarge)
	wantError(t, "anycast", a.Anycast(1, append(most, 'y')), transport.ErrTooLarge)
	if s := a.State(0); !s.Connected {
		t.Fatal("a payload too large broke the connection")
	}
}

func testBroadcast(t *testing.T, h Harness) {
	a, b, c := openMember(t, h, "a"), openMember(t, h, "b"), openMember(t, h, "c")
	outside := openClient(t, h, "outside")
	if err := outside.Broadcast([]byte("from a client")); err == nil {
		t.Error("a client broadcasts, want an error")
	}
	for _, from := range []*process{a, b} {
		if err := from.Broadcast([]byte("from " + from.self.Name)); err != nil {
			t.Fatal(err)
		}
		for _, to := range []*process{a, b, c} {
			to.want(transport.Control, transport.Broadcast, "from "+from.self.Name)
		}
	}
	// Member a sent this message to the client after the broadcast.
	a.send(transport.Control, outside, 0, "behind")
	outside.want(transport.Control, transport.Direct, "behind")
}

func testAnycast(t *testing.T, h Harness) {
	members := []*process{openMember(t, h, "a"), openMember(t, h, "b"), openMember(t, h, "c")}
	for _, m := range members {
		m.serve(true)
	}
	outside := openClient(t, h, "outside")
	const n = 30
	for i := range n {
		if err := outside.Anycast(uint64(i), []byte("any")); err != nil {
			t.Fatal(err)
		}
	}
	total := 0
	for _, m := range members {
		outside.send(transport.Control, m, 0, "behind")
		for {
			got, err := m.receive(transport.Control)
			if err != nil {
				t.Fatal(err)
			}
			if got.Kind == transport.Direct {
				break
			}
			if got.Kind != transport.Anycast || string(got.Payload) != "any" {
				t.Fatalf("received kind %d %q, want anycast", got.Kind, got.Payload)
			}
			total++
		}
	}
	if total != n {
		t.Errorf("%d anycasts reached members, want each of %d to reach one", total, n)
	}
	outside.wantNothing(transport.Control)
}

var tokens = []uint64{0, 1, 0xdead_beef, math.MaxUint64}

func testAnycastNobody(t *testing.T, h Harness) {
	outside := openClient(t, h, "outside")
	for _, token := range tokens {
		if err := outside.Anycast(token, []byte("any")); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range tokens {
		outside.wantUnreachable(transport.Control, transport.Address{}, token)
	}
}

func testUnreachableNeverThere(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	nobody := transport.Peer{Address: transport.Address{Name: strings.Repeat("n", transport.MaxNameBytes), Incarnation: math.MaxUint64}}
	for _, ch := range channels {
		for _, nobody.Client = range []bool{false, true} {
			for _, token := range tokens {
				if err := a.Send(ch, nobody, token, []byte("anybody?")); err != nil {
					t.Fatal(err)
				}
			}
			for _, token := range tokens {
				a.wantUnreachable(ch, nobody.Address, token)
			}
		}
	}
}

func testUnreachableGone(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	a.send(0, b, 1, "hello")
	b.want(0, transport.Direct, "hello")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// A restart under the same name has a new address.
	again := openMember(t, h, "b")
	for _, ch := range channels {
		// The broker may take a moment to notice a closed connection; until then
		// messages to it are lost.
		for token := uint64(1); ; token++ {
			a.send(ch, b, token, "still there?")
			a.flush(ch)
			if got, ok := a.TryReceive(ch); ok {
				a.checkUnreachable(ch, got, b.self, token)
				break
			}
		}
		a.send(ch, again, 0, "hello")
		again.want(ch, transport.Direct, "hello")
	}
}

// testSenders checks that From is the sender that the subject names, whatever the payload is.
func testSenders(t *testing.T, h Harness) {
	a, b, c := openMember(t, h, "a"), openMember(t, h, "b"), openClient(t, h, "c")
	a.serve(true)
	wantFrom := func(to *process, ch transport.Channel, from transport.Address) {
		t.Helper()
		if got, err := to.receive(ch); err != nil || got.From != from {
			t.Errorf("a message to %v on channel %d is from %v, %v, want %v", to.self, ch, got.From, err, from)
		}
	}
	for _, ch := range channels {
		b.send(ch, a, 0, "as a member")
		wantFrom(a, ch, transport.Address{})
		c.send(ch, a, 0, "as a client")
		wantFrom(a, ch, c.self)
		a.send(ch, c, 0, "to a client")
		wantFrom(c, ch, transport.Address{})
	}
	if err := c.Anycast(0, nil); err != nil {
		t.Fatal(err)
	}
	wantFrom(a, transport.Control, c.self)
	if err := b.Anycast(0, nil); err != nil {
		t.Fatal(err)
	}
	wantFrom(a, transport.Control, transport.Address{})
}

func testClientAddress(t *testing.T, h Harness) {
	a, c := openMember(t, h, "a"), openClient(t, h, "c")
	asMember := *c
	asMember.client = false
	for _, ch := range channels {
		a.send(ch, &asMember, 5, "as a member")
		a.wantUnreachable(ch, c.self, 5)
		a.send(ch, c, 6, "as a client")
		c.want(ch, transport.Direct, "as a client")
		c.send(ch, a, 7, "answer")
		a.want(ch, transport.Direct, "answer")
	}
}
