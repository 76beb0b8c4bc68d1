package shard

import (
	"time"

	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// seeker finds a singleton for a process that is no member: the member that
// serves it searches for both.
type seeker struct {
	kind  *kind
	proxy *singleton.Proxy
	wake  time.Time
}

// begin makes the seeker know nobody.
func (s *seeker) begin() (err error) {
	s.wake = time.Time{}
	s.proxy, err = singleton.NewProxy(singleton.ProxyConfig{Name: singletonPrefix + s.kind.desc.Name})
	return err
}

// seek tells that calls of a singleton wait. It reports false for other types.
func (c *Conn) seek(name string) bool {
	s := c.seekers[name]
	if s == nil {
		k := (*c.plane.kinds.Load())[name]
		if k == nil || !k.desc.Singleton {
			return false
		}
		s = &seeker{kind: k}
		if err := s.begin(); err != nil {
			c.log.Error("singleton cannot be called", "kind", name, "err", err)
			return true
		}
		c.seekers[name] = s
		c.stepSeeker(s, singleton.Guide{Member: c.gateway.Address})
	}
	c.stepSeeker(s, singleton.Want{})
	return true
}

func (c *Conn) stepSeeker(s *seeker, in singleton.ProxyInput) {
	out := s.proxy.Step(time.Now(), in)
	s.wake = out.WakeAt
	for _, e := range out.Send {
		if body, err := singleton.Encode(e.Message); err == nil {
			c.sendBody(transport.Peer{Address: e.To}, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, body)
		}
	}
	c.setWhy(s.kind.desc.Name, s.proxy.Why())
	if out.Found != nil {
		s.kind.found(out.Found.Node, out.Found.Epoch, false)
	}
}

// identity hears from the member that serves this process.
func (c *Conn) identity(from transport.Peer, body []byte) {
	m, err := singleton.Decode(body)
	if err != nil {
		c.plane.counters.add(frameForeign)
		return
	}
	for name, s := range c.seekers {
		if singletonPrefix+name == m.Name {
			c.stepSeeker(s, singleton.Receive{From: from.Address, Message: m})
			return
		}
	}
	c.plane.counters.add(frameIgnored)
}

// guided tells all seekers who serves this process now.
func (c *Conn) guided() {
	for _, s := range c.seekers {
		c.stepSeeker(s, singleton.Guide{Member: c.gateway.Address})
	}
}

// lost tells all seekers that a member is gone.
func (c *Conn) lost(a transport.Address) {
	for _, s := range c.seekers {
		c.stepSeeker(s, singleton.Lost{Node: a})
	}
}

// seekAt is when a seeker is due, if that is before at.
func (c *Conn) seekAt(at time.Time) time.Time {
	for _, s := range c.seekers {
		if !s.wake.IsZero() && s.wake.Before(at) {
			at = s.wake
		}
	}
	return at
}

func (c *Conn) tickSeekers(now time.Time) {
	for _, s := range c.seekers {
		if !s.wake.IsZero() && !now.Before(s.wake) {
			c.stepSeeker(s, singleton.Tick{})
		}
	}
}
