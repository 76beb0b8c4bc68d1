package direct

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/transport"
)

// TestDrained: a process that has closed its lanes learns when nothing more is received: not before
// Close, and not before the last connection has ended.
func TestDrained(t *testing.T) {
	a, _, ofA, _ := pair(t)
	drained := func() bool {
		select {
		case <-a.lanes.Drained():
			return true
		default:
			return false
		}
	}
	idle := newBroker().process(t, memberA, "127.0.0.1:0")
	select {
	case <-idle.lanes.Drained():
		t.Fatal("drained before Close")
	default:
	}
	idle.lanes.Close()
	<-idle.lanes.Drained() // it has no connection

	a.lanes.Close()
	if drained() {
		t.Fatal("drained although frames of a connection are received")
	}
	a.lanes.Ended(ofA)
	if !drained() {
		t.Fatal("not drained although the last connection has ended")
	}
	a.lanes.Close() // twice
}

// A detour dials the address to instead of the given address.
type detour struct {
	net.Dialer
	to string
}

func (d *detour) DialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	return d.Dialer.DialContext(ctx, network, d.to)
}

// TestDialer: a process dials with the Dialer that its context has.
func TestDialer(t *testing.T) {
	d := &detour{}
	require.Same(t, d, DialerOf(WithDialer(t.Context(), d)))
	require.IsType(t, &net.Dialer{}, DialerOf(t.Context()))
	require.IsType(t, &net.Dialer{}, DialerOf(WithDialer(t.Context(), nil)), "no Dialer")

	broker := newBroker()
	a := broker.process(t, memberA, "127.0.0.1:0")
	d.to = a.lanes.Addr().String()
	c := broker.start(t, Config{Self: clientC, Dialer: d})
	broker.change = func(_ transport.Peer, m agree.Message) agree.Message {
		if accept, ok := m.(agree.Accept); ok {
			accept.Address = "192.0.2.1:7000" // of no host: RFC 5737
			return accept
		}
		return m
	}
	c.lanes.Want(a.self, 1)
	c.await()
	a.await()
}
