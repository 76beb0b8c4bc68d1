package memory

import (
	"sync"

	"github.com/shardgen/shardgen/transport"
)

// A channel is one queue of a link, guarded by the broker's mutex.
type channel struct {
	link    *link
	id      transport.Channel
	state   transport.State
	untold  []transport.State // states for which OnState has not returned yet
	queue   []transport.Message
	ready   chan struct{} // holds a token after a push, a drain and a close
	drained bool
	dropped uint64

	teller  bool       // a goroutine runs tell
	telling sync.Mutex // held while OnState runs; taken before the broker's
}

func (c *channel) subscribed() bool {
	return !c.link.closed && !c.drained && c.state.Connected
}

func (c *channel) push(m transport.Message) {
	if len(c.queue) >= c.link.broker.options.QueueLength {
		c.dropped++
		return
	}
	c.queue = append(c.queue, m)
	c.wake()
}

func (c *channel) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *channel) pop() (m transport.Message, ok bool, err error) {
	c.link.broker.mu.Lock()
	defer c.link.broker.mu.Unlock()
	switch {
	case c.link.closed:
		return m, false, transport.ErrClosed
	case len(c.queue) > 0:
		m = c.queue[0]
		c.queue[0] = transport.Message{} // so the array does not keep the payload in memory
		c.queue = c.queue[1:]
		return m, true, nil
	case c.drained:
		return m, false, transport.ErrClosed
	}
	return m, false, nil
}

// tell calls OnState for unreported states, in order, unless another call of tell does so.
func (c *channel) tell() {
	b := c.link.broker
	b.mu.Lock()
	if c.teller {
		b.mu.Unlock()
		return
	}
	c.teller = true
	b.mu.Unlock()
	for c.tellNext() {
	}
}

func (c *channel) tellNext() bool {
	b := c.link.broker
	c.telling.Lock()
	defer c.telling.Unlock()
	b.mu.Lock()
	if len(c.untold) == 0 {
		c.teller = false
		b.mu.Unlock()
		return false
	}
	s := c.untold[0]
	b.mu.Unlock()
	if c.link.onState != nil {
		c.link.onState(c.id, s)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(c.untold) > 0 { // the channel was not closed meanwhile
		c.untold = c.untold[1:]
	}
	return true
}

func (c *channel) awaitTeller() {
	c.telling.Lock()
	defer c.telling.Unlock()
}
