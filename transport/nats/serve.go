package natstransport

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

var errClientServes = errors.New("a client takes no Anycast (open the link as a member)")

// Serve enters the gateway's queue group, or leaves it. It fails when the server
// does not grant the subject; the link goes on without.
func (l *link) Serve(ctx context.Context, on bool) error {
	if err := l.channels[0].serve(ctx, on); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func (c *channel) serve(ctx context.Context, on bool) error {
	if c.client {
		return errClientServes
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.serving <- struct{}{}:
		defer func() { <-c.serving }()
	case <-c.quit:
		return transport.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	s, err := c.wish(on)
	if err != nil {
		return err
	}
	if on {
		err = c.enterGateway(ctx, s)
	} else {
		s.endGateway()
		err = s.settle(ctx)
	}
	if err == nil && c.isClosed() {
		return transport.ErrClosed
	}
	return err
}

// wish notes the subscriptions of later sessions and returns the present one, which must
// be informed, because adopt takes none that does not know them.
func (c *channel) wish(serves bool) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, transport.ErrClosed
	}
	c.interest.serves = serves
	return c.session.Load(), nil
}

func (c *channel) enterGateway(ctx context.Context, s *session) error {
	if s.gateway == nil {
		sub, err := c.listen(s, c.subjects.gateway, gatewayQueue)
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return c.renounce(s, err)
		}
		s.gateway = sub
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	// A refused subscription comes as an error before the flush's answer. One that
	// an earlier call was told of stands there too.
	if err := s.nc.LastError(); c.refusesGateway(err) && err != s.refused {
		s.refused = err
		return c.renounce(s, err)
	}
	return nil
}

// renounce gives serving up. Otherwise each session to come would be refused.
func (c *channel) renounce(s *session, cause error) error {
	_, _ = c.wish(false) // a closed channel has no sessions to come
	s.endGateway()
	return explain(cause)
}

func (c *channel) refusesGateway(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(err.Error(), "Subscription to "+strconv.Quote(c.subjects.gateway))
}

// endGateway ends the subscription but keeps the messages that the server has routed to it.
func (s *session) endGateway() {
	if s.gateway != nil {
		s.forget(s.gateway)
		_ = s.gateway.Drain() // fails only where nothing is left to drain
		s.gateway = nil
	}
}
