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

// dialExtra bounds TLS and the first protocol messages.
const dialExtra = 5 * time.Second

// A connection has its own nats.Conn, so that a publish after its end fails instead of using the
// next connection.
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

func (s *connection) state() transport.State {
	return transport.State{Connected: true, Server: s.server, Alone: s.alone}
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

// confidential accepts TLS, and connections within this host.
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

// drain ends the subscriptions. After a later flush, all messages routed to them are queued.
func (s *connection) drain() {
	s.mu.Lock()
	subs := slices.Clone(s.subs)
	s.mu.Unlock()
	for _, sub := range subs {
		_ = sub.Drain() // fails only where nothing is left to drain
	}
}

// countDropped counts messages dropped for a full queue. nats.go loses the number when the
// connection ends, so the last one seen counts.
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

// flush waits for a round trip. It fails when the connection ends.
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

// settle waits until the server has the requested subscriptions. It also returns nil if the
// connection has ended, because the next one makes them again.
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

// endServing keeps messages already routed for Anycast.
func (s *connection) endServing() {
	for _, sub := range s.serving {
		s.forget(sub)
		_ = sub.Drain() // fails only where nothing is left to drain
	}
	s.serving = nil
}
