package natstransport

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/shardgen/shardgen/transport"
)

var errClientServes = errors.New("not allowed for a client (open the link as a member)")

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
		err = c.beginServing(ctx, s)
	} else {
		s.endServing()
		err = s.settle(ctx)
	}
	if err == nil && c.isClosed() {
		return transport.ErrClosed
	}
	return err
}

func (c *channel) beginServing(ctx context.Context, s *connection) error {
	if s.serving == nil {
		for _, subject := range c.subjects.serve {
			sub, err := c.listen(s, subject, anyQueue)
			if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
				return c.renounce(s, err)
			}
			if sub != nil {
				s.serving = append(s.serving, sub)
			}
		}
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	// The error of a refused subscription comes before the flush's answer. LastError may still be
	// an error that an earlier call has returned.
	if err := s.nc.LastError(); c.refusesServing(err) && err != s.refused {
		s.refused = err
		return c.renounce(s, err)
	}
	return nil
}

// renounce stops serving after a refusal, because each later connection would be refused, too.
func (c *channel) renounce(s *connection, cause error) error {
	_, _ = c.wish(false) // a closed channel makes no more connections
	s.endServing()
	return explain(deny(cause, c.role))
}

func (c *channel) refusesServing(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && slices.ContainsFunc(c.subjects.serve, func(subject string) bool {
		return strings.Contains(err.Error(), "Subscription to "+strconv.Quote(subject))
	})
}
