package natstransport

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

// confirmTimeout bounds the round trip that confirms subscriptions.
const confirmTimeout = 5 * time.Second

// dialExtra bounds the time for TLS and the first protocol messages.
const dialExtra = 5 * time.Second

// A connection has its own nats.Conn, so a publish after the connection's end fails. A nats.Conn
// that reconnects would publish over the next connection.
type connection struct {
	nc      *nats.Conn
	wire    *wire
	server  string // id of the server at the other end
	name    string // of that server and its next instances; empty if unknown
	alone   bool   // the server is in no cluster, and is the only configured one
	replies *nats.Subscription
	began   time.Time
	over    chan struct{} // closed when nc is closed and delivers no more messages
	stale   bool          // the server does not answer; belongs to upkeep.run

	// The subscriptions for Anycast, or nil, and the last refusal of such a subscription. The
	// holder of the channel's serving token owns both.
	serving []*nats.Subscription
	refused error

	mu        sync.Mutex
	subs      []*nats.Subscription // replies and all others
	dropped   uint64               // because the queue was full; as last counted
	forgotten uint64               // messages of ended subscriptions, included in dropped
}

func (s *connection) state() transport.State {
	return transport.State{Connected: true, Server: s.server, Alone: s.alone, Name: s.name}
}

// forget drops an ending subscription, but keeps its count of dropped messages.
func (s *connection) forget(sub *nats.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, err := sub.Dropped(); err == nil {
		s.forgotten += uint64(d)
	}
	s.subs = slices.DeleteFunc(s.subs, func(o *nats.Subscription) bool { return o == sub })
}

func (s *connection) end() {
	s.nc.Close()
	<-s.over
}

// confidential returns nil for a connection with TLS, or by a loopback address or local socket.
func (s *connection) confidential() error {
	_, err := s.nc.TLSConnectionState()
	if err == nil || errors.Is(err, nats.ErrDisconnected) {
		return err
	}
	to := s.wire.RemoteAddr()
	switch to.Network() {
	case "unix", "pipe": // a pipe is within the process
		return nil
	case "tcp":
		if at, err := netip.ParseAddrPort(to.String()); err == nil && at.Addr().Unmap().IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("the connection to %s %s has no TLS", to.Network(), to)
}

func (s *connection) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// drain ends the subscriptions. When a later flush returns, all their messages are in the queue.
func (s *connection) drain() {
	s.mu.Lock()
	subs := slices.Clone(s.subs)
	s.mu.Unlock()
	for _, sub := range subs {
		_ = sub.Drain() // fails only if there is nothing to drain
	}
}

// countDropped counts messages dropped because of a full queue. nats.go forgets the number when the
// connection ends, so the last known number counts.
func (s *connection) countDropped() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.forgotten
	for _, sub := range s.subs {
		if d, err := sub.Dropped(); err == nil {
			n += uint64(d)
		}
	}
	s.dropped = max(s.dropped, n)
	return s.dropped
}

// flush waits for a round trip to the server. It fails when the connection ends.
func (s *connection) flush(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		// nats.go requires a deadline. If the server is dead, the connection and the flush end long
		// before it.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
	}
	return s.nc.FlushWithContext(ctx)
}

// settle waits until the server has the subscriptions that this connection has requested. If the
// connection ends first, settle returns nil, because the next connection subscribes again.
func (s *connection) settle(ctx context.Context) error {
	if s.flush(ctx) == nil {
		return nil
	}
	// Unless ctx has ended, the connection is ending.
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endServing ends the subscriptions for Anycast. Messages that the server has already routed here
// are kept.
func (s *connection) endServing() {
	for _, sub := range s.serving {
		s.forget(sub)
		_ = sub.Drain() // fails only if there is nothing to drain
	}
	s.serving = nil
}
