package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/shardgen/shardgen/store"
)

// An Op is one operation that may be met by a fault.
type Op struct {
	Name  string // as Op in store.Error
	Key   string // as in store.Error
	Write bool   // it changes something, renewing and releasing leases too
}

// A Fault is what happens to an operation. The zero value does nothing.
type Fault struct {
	// Delay passes before the operation reaches the server. Below 0 is 0.
	Delay time.Duration
	// Answer passes before the answer comes, after the server has done its part.
	// Below 0 is 0.
	Answer time.Duration
	// Loss is what gets lost.
	Loss Loss
}

// A Loss says what of an operation gets lost.
type Loss uint8

// The losses.
const (
	// LoseNothing: it is done and answered.
	LoseNothing Loss = iota
	// LoseConnection: nothing is sent; the answer is store.ErrUnavailable.
	LoseConnection
	// LoseRequest: it never reaches the server, and the caller cannot tell: a
	// write is answered by store.ErrUncertain, a read by store.ErrUnavailable.
	LoseRequest
	// LoseAnswer: it is done, and the caller is answered as by LoseRequest.
	LoseAnswer
)

// Fault lets decide meet every operation of every client; nil ends it. Decide is
// called by many goroutines, one after another, and must not use the server.
func (s *Server) Fault(decide func(Op) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = decide
}

// Fault lets decide meet every operation of this client, before a fault of the
// server's; nil ends it.
func (c *Client) Fault(decide func(Op) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = decide
}

// Cut takes the server out of this client's reach, or back into it.
func (c *Client) Cut(cut bool) {
	if !cut {
		c.Fault(nil)
		return
	}
	c.Fault(func(Op) Fault { return Fault{Loss: LoseConnection} })
}

// faults are those that meet op, on the way there in order.
func (c *Client) faults(op Op) [2]Fault {
	var met [2]Fault
	c.mu.Lock()
	if c.fault != nil {
		met[0] = c.fault(op)
	}
	c.mu.Unlock()
	c.server.mu.Lock()
	if c.server.fault != nil {
		met[1] = c.server.fault(op)
	}
	c.server.mu.Unlock()
	return met
}

// do runs apply on the server, under its lock, through the faults that op meets.
// A context that ends on the way there leaves the caller in doubt, and so does
// one that ends on the way back.
func (c *Client) do(ctx context.Context, op Op, apply func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	lost := store.ErrUnavailable
	if op.Write {
		lost = store.ErrUncertain
	}
	met := c.faults(op)
	for _, f := range met {
		if f.Loss == LoseConnection {
			return store.ErrUnavailable
		}
	}
	if !wait(ctx, met[0].Delay+met[1].Delay) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	for _, f := range met {
		if f.Loss == LoseRequest {
			return lost
		}
	}
	c.server.mu.Lock()
	err := apply()
	c.server.mu.Unlock()
	if !wait(ctx, met[0].Answer+met[1].Answer) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	for _, f := range met {
		if f.Loss == LoseAnswer {
			return lost
		}
	}
	return err
}

// wait is a delay that ctx can cut short; it reports whether it passed.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
