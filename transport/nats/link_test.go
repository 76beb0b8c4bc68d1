package natstransport_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/transport"
	natstransport "github.com/shardgen/shardgen/transport/nats"
	"github.com/shardgen/shardgen/transport/nats/embedded"
)

const patience = 20 * time.Second

func wantMessage(t *testing.T, l transport.Link, ch transport.Channel, kind transport.Kind, payload string) {
	t.Helper()
	// A closed link returns ErrClosed, so a lost message fails the test and does not hang it.
	watchdog := time.AfterFunc(patience, func() { _ = l.Close() })
	defer watchdog.Stop()
	m, err := l.Receive(ch)
	if err != nil {
		t.Fatalf("receive: %v, want %q", err, payload)
	}
	if m.Kind != kind || string(m.Payload) != payload {
		t.Fatalf("received kind %d %q, want kind %d %q", m.Kind, m.Payload, kind, payload)
	}
}

// The subjects and reply subjects on the wire are those of the package doc.
func TestSubjectsOnTheWire(t *testing.T) {
	s := startEmbedded(t, embedded.Options{})
	spy, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	seen := make(chan *nats.Msg, 100)
	if _, err := spy.ChanSubscribe("sh.>", seen); err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	a := openLink(t, s.ClientURL(), nodeA)
	for _, want := range []string{"sh.c.m.probe", "sh.c.r.c.a.000000000000000a.probe", "sh.c.r.o.a.000000000000000a.probe"} {
		select {
		case m := <-seen:
			if m.Subject != want || m.Reply != "" || len(m.Data) > 0 {
				t.Errorf("opening published %s, want %s", m.Subject, want)
			}
		case <-time.After(patience):
			t.Fatalf("opening did not publish %s", want)
		}
	}
	to := transport.Peer{Address: transport.Address{Name: "b", Incarnation: 0xb}}
	for _, step := range []struct {
		send func() error
		want string
	}{
		{func() error { return a.Send(0, to, 16, nil) }, "sh.c.m.b.000000000000000b.0 sh.c.r.m.a.000000000000000a.0.u.b.000000000000000b.10"},
		{func() error { return a.Send(transport.Control, to, 1, nil) }, "sh.c.m.b.000000000000000b.ctl sh.c.r.m.a.000000000000000a.ctl.u.b.000000000000000b.1"},
		{func() error { to.Client = true; return a.Send(0, to, 1, nil) }, "sh.c.r.c.b.000000000000000b.0.f sh.c.r.m.a.000000000000000a.0.u.b.000000000000000b.1"},
		{func() error { return a.Anycast(1, nil) }, "sh.c.m.any sh.c.r.m.a.000000000000000a.ctl.a.1"},
		{func() error { return a.Broadcast(nil) }, "sh.c.m.all "},
	} {
		if err := step.send(); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-seen:
			if got := m.Subject + " " + m.Reply; got != step.want {
				t.Errorf("on the wire: %s\nwant:        %s", got, step.want)
			}
		case <-time.After(patience):
			t.Fatalf("nothing on the wire, want %s", step.want)
		}
	}
}

// Foreign messages on the link's subjects are counted, and never received as messages of links.
func TestForeignMessages(t *testing.T) {
	s := startEmbedded(t, embedded.Options{})
	var log syncBuffer
	o := optionsOf(nodeA)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := openWith(t, s.ClientURL(), o)
	other, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const replies = "sh.c.r.m.a.000000000000000a.0."
	header := nats.Header{"Status": []string{"503"}}
	foreign := []*nats.Msg{
		{Subject: replies + "f", Data: []byte("a member is not a client")},
		{Subject: replies + "u"},
		{Subject: replies + "u.b.1.1", Data: []byte("not empty")},
		{Subject: replies + "u.b.1.1", Data: []byte("not empty"), Header: header},
		{Subject: replies + "u.b.1.1"},
		{Subject: replies + "u.b.1", Header: header},
		{Subject: replies + "u.b.x.1", Header: header},
		{Subject: replies + "a.x", Header: header},
		{Subject: replies + "nonsense.with.words", Header: header},
		{Subject: replies + "u.b.1.1", Header: nats.Header{"Status": []string{"404"}}},
		// Subjects of clients whose incarnation is a member's, an operator's, or no number.
		{Subject: "sh.c.c.p.0000000000000001.a.000000000000000a.0"},
		{Subject: "sh.c.c.p.8000000000000001.a.000000000000000a.0"},
		{Subject: "sh.c.c.p.nonsense.a.000000000000000a.0"},
	}
	for _, m := range foreign {
		if err := other.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	// Any bytes on a valid subject are passed on; the layers above check them.
	if err := other.Publish("sh.c.m.a.000000000000000a.0", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, a, 0, transport.Direct, "junk")
	// The foreign messages come by several subscriptions, which have no common order. They are
	// counted when they are received.
	counted := func() bool { return a.(transport.Counter).Counts(0).Foreign == uint64(len(foreign)) }
	for end := time.Now().Add(patience); !counted() && time.Now().Before(end); {
		if err := other.Publish("sh.c.m.a.000000000000000a.0", []byte("more")); err != nil {
			t.Fatal(err)
		}
		wantMessage(t, a, 0, transport.Direct, "more")
	}
	if n := a.(transport.Counter).Counts(0); n.Foreign != uint64(len(foreign)) {
		t.Errorf("counts %+v, want %d foreign", n, len(foreign))
	}
	if !strings.Contains(log.String(), "foreign message ignored") {
		t.Errorf("the log does not mention foreign messages:\n%s", &log)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A receiver that does not keep up loses the newest messages, which are counted.
func TestQueueFull(t *testing.T) {
	s := startEmbedded(t, embedded.Options{})
	var log syncBuffer
	o := optionsOf(nodeA)
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	a := openWith(t, s.ClientURL(), o)
	const queue, over = 64 << 10, 1000
	for i := range queue + over {
		if err := a.Send(0, transport.Peer{Address: nodeA}, 0, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Flush(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	for i := range queue {
		wantMessage(t, a, 0, transport.Direct, fmt.Sprint(i))
	}
	if m, ok := a.TryReceive(0); ok {
		t.Errorf("received %q beyond the queue", m.Payload)
	}
	if n := a.(transport.Counter).Counts(0); n.Dropped != over {
		t.Errorf("counts %+v, want %d dropped", n, over)
	}
	if err := a.Close(); err != nil { // after Close, all callbacks have been called
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "queue is full") {
		t.Errorf("the log does not mention dropped messages:\n%s", &log)
	}
}

func TestInProcess(t *testing.T) {
	s := startEmbedded(t, embedded.Options{NoListen: true})
	if s.ClientURL() != "" {
		t.Errorf("client URL %q of a server that does not listen", s.ClientURL())
	}
	tr := s.Transport(natstransport.ConnectOptions(nats.PingInterval(time.Second)))
	l, err := tr.Open(t.Context(), optionsOf(nodeA))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Broadcast([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	wantMessage(t, l, transport.Control, transport.Broadcast, "hello")
	s.Shutdown()
	for l.State(0).Connected {
		if err := l.Flush(t.Context(), 0); err != nil && !errors.Is(err, transport.ErrDisconnected) {
			t.Fatal(err)
		}
	}
	if err := l.Send(0, transport.Peer{Address: nodeA}, 0, nil); !errors.Is(err, transport.ErrDisconnected) {
		t.Errorf("error %v, want disconnected", err)
	}
	_, err = s.Transport(natstransport.ConnectTimeout(100*time.Millisecond)).Open(t.Context(), optionsOf(nodeA))
	if err == nil || !strings.Contains(err.Error(), "server in this process") {
		t.Errorf("error %v, want it to name the server", err)
	}
}

// State.Alone is true for a single server. It is false for a server of a cluster. It is also false
// if several addresses are configured, because members may then move to leaf nodes.
func TestStateAlone(t *testing.T) {
	cluster, err := natsproc.RunCluster(2)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range cluster {
			_ = s.Stop()
		}
	})
	self := transport.Address{Name: "n", Incarnation: 1}
	single := natsproc.Start(t).URL()
	for url, want := range map[string]bool{single: true, cluster[0].URL(): false, single + "," + natsproc.Start(t).URL(): false} {
		if got := openLink(t, url, self).State(transport.Control); got.Alone != want || !got.Connected {
			t.Errorf("%s: got %+v, want Alone to be %v", url, got, want)
		}
	}
}
