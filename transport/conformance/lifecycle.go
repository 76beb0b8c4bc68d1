package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

func testBadNames(t *testing.T, h Harness) {
	good := transport.Options{Cluster: cluster, Self: transport.Address{Name: "a", Incarnation: 1}, Lanes: 1}
	for _, test := range []struct {
		name, want string
		change     func(*transport.Options)
	}{
		{"no cluster", "cluster", func(o *transport.Options) { o.Cluster = "" }},
		{"dot in the cluster", "a.b", func(o *transport.Options) { o.Cluster = "a.b" }},
		{"wildcard in the cluster", ">", func(o *transport.Options) { o.Cluster = ">" }},
		{"long cluster", "65", func(o *transport.Options) { o.Cluster = strings.Repeat("x", 65) }},
		{"no node", "node", func(o *transport.Options) { o.Self.Name = "" }},
		{"space in the node", "a b", func(o *transport.Options) { o.Self.Name = "a b" }},
		{"unicode in the node", "é", func(o *transport.Options) { o.Self.Name = "é" }},
		{"no lanes", "0 lanes", func(o *transport.Options) { o.Lanes = 0 }},
		{"too many lanes", "65 lanes", func(o *transport.Options) { o.Lanes = transport.MaxLanes + 1 }},
	} {
		o := good
		test.change(&o)
		link, err := h.Transport.Open(t.Context(), o)
		if err == nil {
			_ = link.Close()
			t.Errorf("%s: opened, want an error", test.name)
		} else if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %q does not name %q", test.name, err, test.want)
		}
	}
	a := openMember(t, h, "a")
	for _, name := range []string{"", "x.y", "*", "a b"} {
		to := transport.Peer{Address: transport.Address{Name: name, Incarnation: 1}}
		if err := a.Send(0, to, 1, nil); err == nil {
			t.Errorf("sent to a node named %q, want an error", name)
		}
	}
}

func testBadChannel(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	for _, ch := range []transport.Channel{-2, lanes, 1 << 40} {
		if err := a.Send(ch, a.peer(), 1, nil); err == nil {
			t.Errorf("sent on channel %d of %d lanes, want an error", ch, lanes)
		}
		if _, err := a.Receive(ch); err == nil {
			t.Errorf("received on channel %d of %d lanes, want an error", ch, lanes)
		}
		if err := a.Flush(t.Context(), ch); err == nil {
			t.Errorf("flushed channel %d of %d lanes, want an error", ch, lanes)
		}
		a.wantNothing(ch)
		if s := a.State(ch); s != (transport.State{}) {
			t.Errorf("channel %d of %d lanes has state %v", ch, lanes, s)
		}
	}
}

func testFirstState(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	for _, ch := range channels {
		select {
		case s := <-a.states[ch]:
			if !s.Connected || s.Server == "" || s != a.State(ch) {
				t.Errorf("channel %d was told %v and has %v, want both connected to one server", ch, s, a.State(ch))
			}
		default:
			t.Errorf("channel %d: no state told before Open returned", ch)
		}
	}
}

func testDisconnected(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	h.StopBroker()
	for _, ch := range channels {
		a.wantState(ch, false)
		if s := a.State(ch); s.Connected || s.Server != "" {
			t.Errorf("channel %d has state %v, want disconnected", ch, s)
		}
		wantError(t, "send", a.Send(ch, a.peer(), 1, nil), transport.ErrDisconnected)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		wantError(t, "flush", a.Flush(ctx, ch), transport.ErrDisconnected)
		cancel()
		a.wantNothing(ch)
	}
	wantError(t, "broadcast", a.Broadcast(nil), transport.ErrDisconnected)
	wantError(t, "anycast", a.Anycast(1, nil), transport.ErrDisconnected)
	if a.MaxPayload() == 0 {
		t.Error("MaxPayload has changed while disconnected")
	}
}

func testReconnected(t *testing.T, h Harness) {
	a, b, outside := openMember(t, h, "a"), openMember(t, h, "b"), openClient(t, h, "outside")
	all := []*process{a, b, outside}
	seen := map[string]bool{a.State(0).Server: true}
	for round := range 2 {
		a.send(0, b, 0, "before")
		a.flush(0)
		b.flush(0) // messages routed before the flush have arrived
		h.StopBroker()
		for _, m := range all {
			for _, ch := range channels {
				m.wantState(ch, false)
			}
		}
		h.StartBroker()
		server := ""
		for _, m := range all {
			for _, ch := range channels {
				server = m.wantState(ch, true).Server
				if seen[server] {
					t.Fatalf("round %d: OnState got server %q, want a new one", round, server)
				}
				if s := m.State(ch).Server; s != server {
					t.Fatalf("State has server %q, OnState got %q", s, server)
				}
			}
		}
		seen[server] = true
		// Messages that had arrived stay, and every subject is subscribed to again.
		b.want(0, transport.Direct, "before")
		for _, ch := range channels {
			a.send(ch, b, 0, "after")
			b.want(ch, transport.Direct, "after")
			b.send(ch, outside, 0, "after")
			outside.want(ch, transport.Direct, "after")
			nobody := transport.Peer{Address: transport.Address{Name: "nobody", Incarnation: 1}}
			if err := a.Send(ch, nobody, 9, nil); err != nil {
				t.Fatal(err)
			}
			a.wantUnreachable(ch, nobody.Address, 9)
		}
		if err := a.Broadcast([]byte("all")); err != nil {
			t.Fatal(err)
		}
		a.want(transport.Control, transport.Broadcast, "all")
		b.want(transport.Control, transport.Broadcast, "all")
	}
}

func testOpenWithoutBroker(t *testing.T, h Harness) {
	h.StopBroker()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	link, err := h.Transport.Open(ctx, transport.Options{Cluster: cluster, Self: transport.Address{Name: "a", Incarnation: 1}, Lanes: lanes})
	if err == nil {
		_ = link.Close()
		t.Fatal("opened without a broker")
	}
	if d := time.Since(began); d > patience/2 {
		t.Errorf("open returned %v after its context ended", d)
	}
}

func testDrain(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	const n = 500
	for _, ch := range []transport.Channel{0, 1} {
		for i := range n {
			a.send(ch, b, 0, fmt.Sprint(i))
		}
		a.flush(ch)
	}
	drain(t, b)
	drain(t, b) // a second drain changes nothing
	for _, ch := range []transport.Channel{0, 1} {
		a.send(ch, b, 3, "too late")
		a.wantUnreachable(ch, b.self, 3)
		for i := range n {
			b.want(ch, transport.Direct, fmt.Sprint(i))
		}
		_, err := b.receive(ch)
		wantError(t, "receive on a drained lane", err, transport.ErrClosed)
		b.wantNothing(ch)
		b.send(ch, a, 0, "a last word")
		a.want(ch, transport.Direct, "a last word")
	}
	a.send(transport.Control, b, 0, "control goes on")
	b.want(transport.Control, transport.Direct, "control goes on")
}

func drain(t *testing.T, m *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.Drain(ctx); err != nil {
		t.Fatalf("drain: %v", err)
	}
}

func testDrainDisconnected(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	a.send(0, b, 0, "before")
	a.flush(0)
	b.flush(0)
	h.StopBroker()
	for _, ch := range channels {
		a.wantState(ch, false)
		b.wantState(ch, false)
	}
	drain(t, b)
	h.StartBroker()
	for _, ch := range channels {
		a.wantState(ch, true)
		b.wantState(ch, true)
	}
	b.want(0, transport.Direct, "before")
	for _, ch := range []transport.Channel{0, 1} {
		a.send(ch, b, 4, "too late")
		a.wantUnreachable(ch, b.self, 4)
		_, err := b.receive(ch)
		wantError(t, "receive on a drained lane", err, transport.ErrClosed)
	}
	a.send(transport.Control, b, 0, "control goes on")
	b.want(transport.Control, transport.Direct, "control goes on")
}

func testCloseFlushes(t *testing.T, h Harness) {
	a, b := openMember(t, h, "a"), openMember(t, h, "b")
	const n = 1000
	for i := range n {
		for _, ch := range channels {
			a.send(ch, b, 0, fmt.Sprint(i))
			b.send(ch, a, 0, "unread when a closes")
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		for _, ch := range channels {
			b.want(ch, transport.Direct, fmt.Sprint(i))
		}
	}
}

func testCloseTwice(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	a.send(0, a, 0, "unread")
	a.flush(0)
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, ch := range channels {
		wantError(t, "send", a.Send(ch, a.peer(), 1, nil), transport.ErrClosed)
		wantError(t, "flush", a.Flush(t.Context(), ch), transport.ErrClosed)
		_, err := a.receive(ch)
		wantError(t, "receive", err, transport.ErrClosed)
		a.wantNothing(ch)
		if s := a.State(ch); s.Connected {
			t.Error("connected after Close")
		}
		a.wantState(ch, true) // the first
	}
	wantError(t, "broadcast", a.Broadcast(nil), transport.ErrClosed)
	wantError(t, "anycast", a.Anycast(1, nil), transport.ErrClosed)
	wantError(t, "drain", a.Drain(t.Context()), transport.ErrClosed)
	h.StopBroker()
	for _, ch := range channels {
		select {
		case s := <-a.states[ch]:
			t.Errorf("channel %d was told %v by or after Close", ch, s)
		default:
		}
	}
}

func testCloseWakesReceivers(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	waiting := make(chan struct{})
	woken := make(chan error, len(channels))
	for _, ch := range channels {
		go func() {
			waiting <- struct{}{}
			_, err := a.Receive(ch)
			woken <- err
		}()
	}
	for range channels {
		<-waiting
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for range channels {
		select {
		case err := <-woken:
			wantError(t, "receive", err, transport.ErrClosed)
		case <-time.After(patience):
			t.Fatal("a receiver still waits after Close")
		}
	}
}

func testCloseDisconnected(t *testing.T, h Harness) {
	a := openMember(t, h, "a")
	h.StopBroker()
	for _, ch := range channels {
		a.wantState(ch, false)
	}
	began := time.Now()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > patience/2 {
		t.Errorf("close without a broker took %v", d)
	}
	_, err := a.receive(0)
	wantError(t, "receive", err, transport.ErrClosed)
}
