package direct

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/transport"
)

// stranger dials a process with a key, and shows a nonce.
func stranger(t *testing.T, to *process, id *keyPair, nonce agree.Nonce) (*Conn, error) {
	d := agree.Dial{Peer: to.self, Address: to.lanes.Addr().String(), Key: to.lanes.id.hash, Nonce: nonce}
	c, err := dial(t.Context(), id, d, 1<<20, to.Go, to.MaxPayload)
	if err == nil {
		t.Cleanup(func() { c.Fail(agree.Over) })
	}
	return c, err
}

func TestStrangers(t *testing.T) {
	broker := newBroker()
	a, b := broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, memberB, "")
	var nonce agree.Nonce
	broker.change = func(from transport.Peer, m agree.Message) agree.Message {
		if o, ok := m.(agree.Offer); ok {
			nonce = o.Nonce
		}
		return m
	}
	b.lanes.Want(a.self, 0)
	ofB, ofA := b.await(), a.await()
	own, err := newKeyPair()
	require.NoError(t, err)
	t.Run("a key that nobody announced", func(t *testing.T) {
		_, err := stranger(t, a, own, nonce)
		require.Error(t, err)
	})
	t.Run("a replayed nonce", func(t *testing.T) {
		_, err := stranger(t, a, b.lanes.id, nonce)
		require.Error(t, err)
	})
	t.Run("a nonce of nobody", func(t *testing.T) {
		// The key is expected, for another lane was offered. The accept goes nowhere.
		a.lanes.step(func(now time.Time) agree.Output {
			out := a.lanes.core.Receive(now, b.self, agree.Offer{Lane: 1, Nonce: agree.Nonce{7}, Key: b.lanes.id.hash}, agree.Nonce{}, "")
			out.Send = nil
			return out
		})
		_, err := stranger(t, a, b.lanes.id, agree.Nonce{8})
		require.Error(t, err)
		_, err = stranger(t, a, own, agree.Nonce{7})
		require.Error(t, err, "the nonce with another key")
		_, err = stranger(t, a, b.lanes.id, agree.Nonce{7})
		require.NoError(t, err, "what was announced is good")
		a.await()
	})
	t.Run("no certificate", func(t *testing.T) {
		c, err := tls.Dial("tcp", a.lanes.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		require.Error(t, err)
	})
	t.Run("an older TLS", func(t *testing.T) {
		_, err := tls.Dial("tcp", a.lanes.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		require.Error(t, err)
	})
	require.Eventually(t, func() bool { return a.counts[Stranger].Load() == 6 }, testPatience, testTick, "%d", a.counts[Stranger].Load())
	require.NoError(t, ofA.Send([]byte("still there")))
	m, err := ofB.Receive()
	require.NoError(t, err)
	require.Equal(t, "still there", string(m.Payload))
}

// TestWrongServer: a process that dials finds a key other than the one that was announced through
// the broker.
func TestWrongServer(t *testing.T) {
	broker := newBroker()
	a, b := broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, memberB, "")
	broker.change = func(_ transport.Peer, m agree.Message) agree.Message {
		if o, ok := m.(agree.Accept); ok {
			o.Key[0]++
			return o
		}
		return m
	}
	b.lanes.Want(a.self, 0)
	require.Eventually(t, func() bool { return b.counts[Refused].Load() > 0 }, testPatience, testTick)
	require.Zero(t, b.lanes.Open())
	require.Empty(t, b.opened)
}

// TestHalfOpen: connections that show no key and nonce are bounded in number and time. Afterwards
// other connections get through.
func TestHalfOpen(t *testing.T) {
	broker := newBroker()
	a, b := broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, memberB, "")
	const count = 3 * maxGreeting
	ended := make(chan error, count)
	for range count {
		c, err := net.Dial("tcp", a.lanes.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		go func() {
			_, err := io.Copy(io.Discard, c)
			ended <- err
		}()
	}
	for i := range count {
		select {
		case <-ended:
		case <-time.After(testPatience):
			t.Fatalf("%d of %d connections were closed", i, count)
		}
		require.LessOrEqual(t, len(a.lanes.greeting), maxGreeting)
	}
	require.Eventually(t, func() bool { return a.counts[Stranger].Load() == count }, testPatience, testTick)
	b.lanes.Want(a.self, 0)
	b.await()
	a.await()
}

func TestRefusedInTheClear(t *testing.T) {
	for _, which := range []string{"the side that offers", "the side that listens"} {
		t.Run(which, func(t *testing.T) {
			broker := newBroker()
			a, b := broker.process(t, memberA, "127.0.0.1:0"), broker.process(t, clientC, "")
			if which == "the side that offers" {
				b.insecure.Store(true)
			} else {
				a.insecure.Store(true)
			}
			b.lanes.Want(a.self, 0)
			require.Eventually(t, func() bool { return b.counts[Refused].Load() == 1 }, testPatience, testTick)
			require.Zero(t, a.lanes.Open()+b.lanes.Open())
		})
	}
}

func TestAdvertised(t *testing.T) {
	at := func(s string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", s)
		require.NoError(t, err)
		return a
	}
	for _, tt := range []struct{ advertise, at, want string }{
		{"", "127.0.0.1:70", "127.0.0.1:70"},
		{"", "[::]:70", ""},
		{"", "0.0.0.0:70", ""},
		{"10.0.0.1", "[::]:70", "10.0.0.1:70"},
		{"10.0.0.1:80", "[::]:70", "10.0.0.1:80"},
		{"host:0", "[::]:70", "host:70"},
		{"[::1]:0", "[::]:70", "[::1]:70"},
		{"::1", "[::]:70", "[::1]:70"},
	} {
		got, err := advertised(tt.advertise, at(tt.at))
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.want == "", err != nil)
	}
	_, err := New(Config{Self: memberA, Lanes: 1, Listen: ":0"}, nil)
	require.ErrorContains(t, err, "Config.Direct.Advertise")
}

// TestEndsWhileDialing: Close ends a dial to an address that does not answer.
func TestEndsWhileDialing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	id, err := newKeyPair()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = dial(ctx, id, agree.Dial{Address: l.Addr().String()}, 1<<20, func(f func()) { go f() }, func() int { return 1 })
	require.Error(t, err)
}
