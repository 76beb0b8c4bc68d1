package memory

import (
	"context"
	"fmt"
	"slices"
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
	// Late is how much later a write arrives that meets LoseTouch. Below 0 is 0.
	Late time.Duration
	// Busy has the server refuse a write to a shard with store.ErrBusy.
	Busy bool
	// Follower has a read of a shard answered by the replica that Server.Lag holds
	// back, if it is as new as the read asks for.
	Follower bool
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
	// LoseTouch: the caller is answered as by LoseRequest, and a write is done
	// later, when Fault.Late has passed, unless the server stops before. A read is
	// never done.
	LoseTouch
	// LoseHalf: of a Put of a shard's records the first half of the changes is done,
	// of anything else nothing; the caller is answered as by LoseRequest.
	LoseHalf
)

// A lateWrite is one that is still on its way although its caller has given up.
type lateWrite struct {
	due   time.Time
	apply func() error
}

// deliver does the writes that have arrived meanwhile; s.mu is held.
func (s *Server) deliver() {
	now := s.now()
	for len(s.late) > 0 && !s.late[0].due.After(now) {
		w := s.late[0]
		s.late = s.late[1:]
		_ = w.apply() // nobody waits for the answer
	}
}

// delay keeps a write for later; s.mu is held.
func (s *Server) delay(after time.Duration, apply func() error) {
	w := lateWrite{s.now().Add(max(after, 0)), apply}
	at := len(s.late)
	for at > 0 && s.late[at-1].due.After(w.due) {
		at--
	}
	s.late = slices.Insert(s.late, at, w)
}

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

// do is carry for what no fault of a shard meets.
func (c *Client) do(ctx context.Context, op Op, apply func() error) error {
	return c.carry(ctx, op, func(Fault) error { return apply() })
}

// carry runs apply on the server, under its lock, through the faults that op
// meets; it is told of them as one. A context that ends on the way there leaves the
// caller in doubt, and so does one that ends on the way back.
func (c *Client) carry(ctx context.Context, op Op, apply func(Fault) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	lost := store.ErrUnavailable
	if op.Write {
		lost = store.ErrUncertain
	}
	met := c.meets(op)
	if met.Loss == LoseConnection {
		return store.ErrUnavailable
	}
	if !c.wait(ctx, met.Delay) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	answered, err := c.server.serve(op, met, lost, apply)
	if !answered {
		return err
	}
	if !c.wait(ctx, met.Answer) {
		return fmt.Errorf("%w: %w", lost, ctx.Err())
	}
	return err
}

// serve is what happens at the server; it reports whether the answer has a way to
// go.
func (s *Server) serve(op Op, met Fault, lost error, apply func(Fault) error) (answered bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver()
	if s.stopped {
		return false, lost
	}
	switch met.Loss {
	case LoseRequest:
		return false, lost
	case LoseTouch:
		if op.Write {
			s.delay(met.Late, func() error { return apply(met) })
		}
		return false, lost
	case LoseHalf:
		if op.Name != opPutRecords {
			return false, lost
		}
	}
	err = apply(met)
	if met.Loss == LoseAnswer || met.Loss == LoseHalf {
		err = lost
	}
	return true, err
}

// meets makes one of the client's fault and the server's: times add up, and of two
// losses the one nearer to the caller counts.
func (c *Client) meets(op Op) Fault {
	met := c.faults(op)
	one := met[0]
	one.Delay = max(one.Delay, 0) + max(met[1].Delay, 0)
	one.Answer = max(one.Answer, 0) + max(met[1].Answer, 0)
	one.Late = max(one.Late, 0) + max(met[1].Late, 0)
	one.Busy = one.Busy || met[1].Busy
	one.Follower = one.Follower || met[1].Follower
	if one.Loss == LoseNothing || met[1].Loss == LoseConnection {
		one.Loss = met[1].Loss
	}
	if c.server.isStopped() {
		one.Loss = LoseConnection
	}
	return one
}

func (s *Server) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// wait is a delay that ctx can cut short; it reports whether it passed.
func (c *Client) wait(ctx context.Context, d time.Duration) bool {
	if c.server.clock != nil {
		return true
	}
	return wait(ctx, d)
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
