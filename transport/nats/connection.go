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

// confirmTimeout bounds the round trip that confirms a connection's subscriptions.
const confirmTimeout = 5 * time.Second

// dialExtra bounds the steps after the dial: TLS and the first protocol messages.
const dialExtra = 5 * time.Second

// A connection is one NATS connection of a channel. It has its own nats.Conn, so a publish after
// the connection has ended fails and cannot go out on the next connection.
type connection struct {
	nc      *nats.Conn
	wire    *wire
	server  string // the id of the server that it is connected to
	alone   bool   // whether that is part of no cluster, and the only one to connect to
	replies *nats.Subscription
	began   time.Time
	over    chan struct{} // closed once nc is closed and feeds nothing any more
	stale   bool          // the server does not answer; belongs to upkeep.run

	// The subscriptions for Anycast, nil while there are none, and the last refusal of
	// one; both belong to the holder of the channel's serving token.
	serving []*nats.Subscription
	refused error

	mu        sync.Mutex
	subs      []*nats.Subscription // replies and all others
	dropped   uint64               // because the queue was full; as last counted
	forgotten uint64               // of them, by subscriptions that were ended
}

// state returns the channel's state while s is the channel's connection.
func (s *connection) state() transport.State {
	return transport.State{Connected: true, Server: s.server, Alone: s.alone}
}

// forget drops a subscription that is about to end, but keeps its count of dropped messages.
func (s *connection) forget(sub *nats.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, err := sub.Dropped(); err == nil {
		s.forgotten += uint64(d)
	}
	s.subs = slices.DeleteFunc(s.subs, func(o *nats.Subscription) bool { return o == sub })
}

// end closes the connection and waits until it passes no more messages to the channel.
func (s *connection) end() {
	s.nc.Close()
	<-s.over
}

// confidential returns nil if the connection has TLS, or does not leave this host.
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

// isOver reports whether the connection has ended.
func (s *connection) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// drain asks the server to end the subscriptions. If a flush afterwards succeeds, all messages
// routed to these subscriptions are in the queue.
func (s *connection) drain() {
	s.mu.Lock()
	subs := slices.Clone(s.subs)
	s.mu.Unlock()
	for _, sub := range subs {
		_ = sub.Drain() // fails only where nothing is left to drain
	}
}

// countDropped returns how many messages the connection has dropped because the queue was full.
// nats.go loses this number when the connection ends, so countDropped then returns the last number
// that it saw.
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
		// nats.go insists on a deadline. A dead server ends the connection, and the
		// flush with it, long before this one.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
	}
	return s.nc.FlushWithContext(ctx)
}

// settle waits until the server's subscriptions are as requested. It returns nil if the server has
// answered a flush. It also returns nil if the connection has ended, because the next connection
// makes the subscriptions again. Otherwise it returns the error of ctx.
func (s *connection) settle(ctx context.Context) error {
	if s.flush(ctx) == nil {
		return nil
	}
	// If not for ctx, the connection is ending.
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endServing ends the subscriptions for Anycast, but keeps the messages that the server has already
// routed to them.
func (s *connection) endServing() {
	for _, sub := range s.serving {
		s.forget(sub)
		_ = sub.Drain() // fails only where nothing is left to drain
	}
	s.serving = nil
}
