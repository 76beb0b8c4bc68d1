package natsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/test/natsproc"
	"github.com/shardgen/shardgen/store/conformance"
	natsstore "github.com/shardgen/shardgen/store/nats"
)

var names atomic.Uint64

// open opens a store that is closed when the test ends.
func open(t testing.TB, url string, cfg natsstore.Config) *natsstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := natsstore.Open(ctx, url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// A gate is a dialer that can hold up what its connections send to the server.
type gate struct {
	mu   sync.Mutex
	free *sync.Cond
	held bool
}

func newGate() *gate {
	g := &gate{}
	g.free = sync.NewCond(&g.mu)
	return g
}

func (g *gate) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	h := &heldConn{Conn: c, gate: g}
	go h.pump() // ends with the connection, at the latest when the gate opens
	return h, nil
}

func (g *gate) set(held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = held
	g.free.Broadcast()
}

// A heldConn queues what is written while the gate is shut.
type heldConn struct {
	net.Conn
	gate   *gate
	queue  [][]byte
	closed bool
}

func (c *heldConn) Write(b []byte) (int, error) {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.queue = append(c.queue, append([]byte(nil), b...))
	c.gate.free.Broadcast()
	return len(b), nil
}

func (c *heldConn) Close() error {
	c.gate.mu.Lock()
	c.closed = true
	c.gate.free.Broadcast()
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

func (c *heldConn) pump() {
	for {
		c.gate.mu.Lock()
		for !c.closed && (c.gate.held || len(c.queue) == 0) {
			c.gate.free.Wait()
		}
		queue, closed := c.queue, c.closed
		c.queue = nil
		c.gate.mu.Unlock()
		if closed {
			return
		}
		for _, b := range queue {
			if _, err := c.Conn.Write(b); err != nil {
				return
			}
		}
	}
}

// subject returns a Subject on running servers. Each test uses a Config.Name of its own.
func subject(servers []*natsproc.Server, replicas int, restart func(t *testing.T)) conformance.Subject {
	var urls string
	for i, s := range servers {
		if i > 0 {
			urls += ","
		}
		urls += s.URL()
	}
	return conformance.Subject{Open: func(t *testing.T) conformance.Harness {
		cfg := natsstore.Config{Name: fmt.Sprint("c", names.Add(1)), Replicas: replicas, Partitions: 2}
		h := conformance.Harness{
			Client: func(t *testing.T) conformance.Client { return open(t, urls, cfg) },
			TTL:    600 * time.Millisecond,
			Wait:   func(d time.Duration) { <-time.After(d) },
			Held: func(t *testing.T) (conformance.Client, func(), func()) {
				g := newGate()
				held := cfg
				held.ConnectOptions = []nats.Option{nats.SetCustomDialer(g), nats.PingInterval(time.Hour)}
				return open(t, urls, held), func() { g.set(true) }, func() { g.set(false) }
			},
		}
		h.Stream = func(t *testing.T) conformance.Stream { return stream(t, urls, cfg.Name, replicas) }
		if restart != nil {
			h.Restart = restart
		}
		return h
	}}
}

func TestConformanceR1(t *testing.T) {
	t.Parallel()
	s := natsproc.Start(t, "-js", "-sd", t.TempDir())
	conformance.Run(t, subject([]*natsproc.Server{s}, 1, func(t *testing.T) {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}))
}

func TestConformanceR3(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("three servers")
	}
	conformance.Run(t, subject(cluster(t), 3, nil))
}

// cluster starts three servers with JetStream that know each other.
func cluster(t testing.TB) []*natsproc.Server {
	t.Helper()
	servers, err := natsproc.RunStores(t.TempDir(), t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		t.Cleanup(func() {
			if err := s.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
	return servers
}

// window is the shortest duplicate window that nats-server takes.
const window = 100 * time.Millisecond

// stream makes a stream to which the store called name may publish.
func stream(t *testing.T, url, name string, replicas int) conformance.Stream {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name + "-mails", Subjects: []string{name + "-mails.>"}, Replicas: replicas, Duplicates: window})
	require.NoError(t, err)
	return conformance.Stream{
		Subject: name + "-mails.won", Window: window, Own: []string{name + ".k.x", name + ".t.T.log.0.1"},
		Data: func(t *testing.T, subject string) (all []string) {
			info, err := s.Info(t.Context())
			require.NoError(t, err)
			for seq := range info.State.LastSeq {
				m, err := s.GetMsg(t.Context(), seq+1)
				require.NoError(t, err)
				if m.Subject == subject {
					all = append(all, string(m.Data))
				}
			}
			return all
		},
		Subscribe: func(t *testing.T, subject string) func() (string, bool) {
			sub, err := nc.SubscribeSync(subject)
			require.NoError(t, err)
			require.NoError(t, nc.Flush())
			return func() (string, bool) {
				m, err := sub.NextMsg(time.Second)
				if errors.Is(err, nats.ErrTimeout) {
					return "", false
				}
				require.NoError(t, err)
				return string(m.Data), true
			}
		},
	}
}
