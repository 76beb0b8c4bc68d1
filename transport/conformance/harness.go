package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/wire/identity"
	"github.com/shardgen/shardgen/transport"
)

const (
	cluster = "conformance"
	lanes   = 2
	// patience is the wait for a message that must come; a healthy transport needs milliseconds.
	patience = 20 * time.Second
)

// A Harness is a transport with its own broker, which the suite can stop.
type Harness struct {
	Transport transport.Transport
	// StopBroker stops the broker and returns when its connections have broken.
	StopBroker func()
	// StartBroker starts a new instance of the broker at the same address.
	StartBroker func()
}

// Run runs the suite. Each test calls open for a Harness of its own, which must clean up when the
// test ends.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"Order", testOrder},
		{"ConcurrentSends", testConcurrentSends},
		{"ReceiverHandover", testReceiverHandover},
		{"ChannelsApart", testChannelsApart},
		{"PayloadOwnership", testPayloadOwnership},
		{"EmptyPayload", testEmptyPayload},
		{"TooLarge", testTooLarge},
		{"Broadcast", testBroadcast},
		{"Anycast", testAnycast},
		{"AnycastNobody", testAnycastNobody},
		{"ServeOnAndOff", testServeOnAndOff},
		{"ServeOneOfTwo", testServeOneOfTwo},
		{"ServeKeepsWhatWasRouted", testServeKeepsWhatWasRouted},
		{"ServeReconnected", testServeReconnected},
		{"ServeDisconnected", testServeDisconnected},
		{"ServeClient", testServeClient},
		{"ServeEnded", testServeEnded},
		{"ServeConcurrently", testServeConcurrently},
		{"UnreachableNeverThere", testUnreachableNeverThere},
		{"UnreachableGone", testUnreachableGone},
		{"ClientAddress", testClientAddress},
		{"Senders", testSenders},
		{"BadNames", testBadNames},
		{"BadChannel", testBadChannel},
		{"FirstState", testFirstState},
		{"Disconnected", testDisconnected},
		{"Reconnected", testReconnected},
		{"OpenWithoutBroker", testOpenWithoutBroker},
		{"Drain", testDrain},
		{"DrainDisconnected", testDrainDisconnected},
		{"CloseFlushes", testCloseFlushes},
		{"CloseTwice", testCloseTwice},
		{"CloseWakesReceivers", testCloseWakesReceivers},
		{"CloseDisconnected", testCloseDisconnected},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

var channels = []transport.Channel{transport.Control, 0, 1}

var incarnations atomic.Uint64

type process struct {
	transport.Link
	t      *testing.T
	self   transport.Address
	client bool
	states map[transport.Channel]chan transport.State
}

func (m *process) peer() transport.Peer {
	return transport.Peer{Address: m.self, Client: m.client}
}

func openMember(t *testing.T, h Harness, name string) *process {
	t.Helper()
	return openLink(t, h, name, false)
}

func openClient(t *testing.T, h Harness, name string) *process {
	t.Helper()
	return openLink(t, h, name, true)
}

func openLink(t *testing.T, h Harness, name string, client bool) *process {
	t.Helper()
	class := identity.Member
	if client {
		class = identity.Client
	}
	m := &process{
		t:      t,
		self:   transport.Address{Name: name, Incarnation: identity.Mark(class, 0xfedc_0000_0000_0000+incarnations.Add(1))},
		client: client,
		states: map[transport.Channel]chan transport.State{},
	}
	for _, ch := range channels {
		m.states[ch] = make(chan transport.State, 1024)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	link, err := h.Transport.Open(ctx, transport.Options{
		Cluster: cluster,
		Self:    m.self,
		Client:  client,
		Lanes:   lanes,
		OnState: func(ch transport.Channel, s transport.State) { m.states[ch] <- s },
	})
	if err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	m.Link = link
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return m
}

func (m *process) send(ch transport.Channel, to *process, token uint64, payload string) {
	m.t.Helper()
	if err := m.Send(ch, to.peer(), token, []byte(payload)); err != nil {
		m.t.Fatalf("send %q: %v", payload, err)
	}
}

func (m *process) flush(ch transport.Channel) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.Flush(ctx, ch); err != nil {
		m.t.Fatalf("flush: %v", err)
	}
}

type received struct {
	m   transport.Message
	err error
}

// receive calls Receive on a new goroutine each time, so that goroutines take turns.
func (m *process) receive(ch transport.Channel) (transport.Message, error) {
	m.t.Helper()
	got := make(chan received, 1)
	go func() {
		var r received
		r.m, r.err = m.Receive(ch)
		got <- r
	}()
	select {
	case r := <-got:
		return r.m, r.err
	case <-time.After(patience):
		m.t.Fatalf("%s: nothing received on channel %d in %v", m.self, ch, patience)
		return transport.Message{}, nil
	}
}

func (m *process) want(ch transport.Channel, kind transport.Kind, payload string) {
	m.t.Helper()
	got, err := m.receive(ch)
	if err != nil {
		m.t.Fatalf("%s: receive on channel %d: %v, want %q", m.self, ch, err, payload)
	}
	if got.Kind != kind || string(got.Payload) != payload {
		m.t.Fatalf("%s: received kind %d %.40q on channel %d, want kind %d %.40q", m.self, got.Kind, got.Payload, ch, kind, payload)
	}
}

func (m *process) wantUnreachable(ch transport.Channel, from transport.Address, token uint64) {
	m.t.Helper()
	got, err := m.receive(ch)
	if err != nil {
		m.t.Fatalf("receive: %v, want unreachable %v", err, from)
	}
	m.checkUnreachable(ch, got, from, token)
}

func (m *process) checkUnreachable(ch transport.Channel, got transport.Message, from transport.Address, token uint64) {
	m.t.Helper()
	if got.Kind != transport.Unreachable || got.From != from || got.Token != token {
		m.t.Fatalf("received kind %d from %v token %d, want unreachable from %v token %d", got.Kind, got.From, got.Token, from, token)
	}
	if want := m.State(ch).Server; got.Server != want || want == "" {
		m.t.Fatalf("unreachable names server %q, want that of the connection, %q", got.Server, want)
	}
}

func (m *process) wantNothing(ch transport.Channel) {
	m.t.Helper()
	if got, ok := m.TryReceive(ch); ok {
		m.t.Fatalf("%s: received kind %d %.40q on channel %d, want nothing", m.self, got.Kind, got.Payload, ch)
	}
}

func (m *process) wantState(ch transport.Channel, connected bool) transport.State {
	m.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case s := <-m.states[ch]:
			if s.Connected == connected {
				return s
			}
		case <-timeout:
			m.t.Fatalf("%s: channel %d not told connected=%v in %v", m.self, ch, connected, patience)
		}
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func (m *process) serve(on bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	if err := m.Serve(ctx, on); err != nil {
		m.t.Fatalf("%s: serve %v: %v", m.self, on, err)
	}
}

func (m *process) anycast(token uint64, payload string) {
	m.t.Helper()
	if err := m.Anycast(token, []byte(payload)); err != nil {
		m.t.Fatalf("anycast %q: %v", payload, err)
	}
}

func (m *process) wantAnycastRefused(token uint64) {
	m.t.Helper()
	m.anycast(token, "anybody?")
	m.wantUnreachable(transport.Control, transport.Address{}, token)
}
