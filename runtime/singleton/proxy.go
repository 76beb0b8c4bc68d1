package singleton

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/util/invariant"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// ProxyConfig holds a proxy's settings. Zero values mean the defaults.
type ProxyConfig struct {
	Name string // of the singleton
	// Role restricts the singleton to members that have it. Default: all members.
	Role string
	// HandoffAt is as in [Config].
	HandoffAt membership.Status
	// Interval is the time between two Identify messages while the instance is not found. Default
	// 100ms (Akka's is 1s).
	Interval time.Duration
}

// A ProxyInput is an event for a [Proxy]: [View], [Guide], [Receive], [Want],
// [Lost] or [Tick].
type ProxyInput interface{ proxyInput() }

// Guide names the member that a client asks for the instance, because a client has no view of its
// own. A zero Member means that the client knows no such member.
type Guide struct{ Member transport.Address }

// Want means that a call waits because the instance's node is unknown.
type Want struct{}

// Lost reports that a process has ended, with any instance that ran there.
type Lost struct{ Node transport.Address }

func (View) proxyInput()    {}
func (Guide) proxyInput()   {}
func (Receive) proxyInput() {}
func (Want) proxyInput()    {}
func (Lost) proxyInput()    {}
func (Tick) proxyInput()    {}

// ProxyOutput lists the actions that the driver must take.
type ProxyOutput struct {
	Send []Envelope
	// Found is the node where the instance runs. The driver sends waiting calls to it.
	Found  *Placement
	WakeAt time.Time // of the next Step if nothing happens before; zero means none
}

// A Placement is the node at which an instance runs, and the instance's epoch.
type Placement struct {
	Node  transport.Address
	Epoch placement.Epoch
}

// A Proxy finds the instance of a singleton for the callers in one process. It repeatedly asks the
// oldest member, until that member answers that it runs the instance. The Proxy searches again when
// the oldest member changes, when the instance's node is lost, or when a call finds no instance at
// that node. A Proxy is a state machine without I/O, and is not safe for concurrent use. Package
// stream keeps the calls that wait.
//
// When the oldest member changes, calls do not wait. Until the new instance is found, they go to
// the node of the former one, which forwards them. Akka's proxy holds the calls at once, because
// Akka's manager does not forward.
type Proxy struct {
	config ProxyConfig
	now    time.Time
	out    ProxyOutput
	wanted bool              // a call has been made
	guided bool              // target is a guide, not from a view
	target transport.Address // the node to ask
	found  Placement
	asking bool
	id     uint64 // of the latest Identify
	askAt  time.Time
	why    string
}

// NewProxy returns a proxy that knows no member yet.
func NewProxy(c ProxyConfig) (*Proxy, error) {
	if c.Name == "" || c.Interval < 0 {
		return nil, fmt.Errorf("configure proxy of singleton %q: Name must be set and Interval not negative", c.Name)
	}
	if c.Interval == 0 {
		c.Interval = 100 * time.Millisecond
	}
	if c.HandoffAt == 0 {
		c.HandoffAt = membership.Exiting
	}
	return &Proxy{config: c}, nil
}

// Found returns the node where the instance was last found, or zero while the proxy searches and
// knows none.
func (p *Proxy) Found() Placement { return p.found }

// Why returns the reason why the instance was not found, as text, or "" if it was found.
func (p *Proxy) Why() string {
	switch {
	case !p.asking:
		return ""
	case p.target.IsZero():
		return "no member that hosts it is up (start a node that calls its Host function)"
	case p.why == "":
		return fmt.Sprintf("%s has not answered yet", p.target.Name)
	}
	return p.why
}

// Step handles one input and returns the resulting actions. now must not go back.
func (p *Proxy) Step(now time.Time, in ProxyInput) ProxyOutput {
	p.now, p.out = now, ProxyOutput{}
	switch in := in.(type) {
	case View:
		p.guided = false
		p.aim(in.oldest(p.config.Role, p.config.HandoffAt))
	case Guide:
		p.guided = true
		p.aim(in.Member)
	case Receive:
		if in.Message.Name == p.config.Name && in.Message.Type == Identity {
			p.onIdentity(in.From, in.Message)
		}
	case Want:
		p.wanted = true
		p.search()
	case Lost:
		if in.Node == p.found.Node {
			p.found = Placement{}
			p.search()
		}
	case Tick:
	default:
		invariant.Failf("proxy input %T: want View, Guide, Receive, Want, Lost or Tick", in)
	}
	p.ask()
	return p.out
}

// aim sets the member that the proxy asks. The proxy then searches at a new oldest member, because
// the instance moves there, but at a new guide only if it was already searching.
func (p *Proxy) aim(target transport.Address) {
	if target == p.target {
		return
	}
	p.target, p.why = target, ""
	switch {
	case p.asking:
		p.asking = false
		p.search()
	case !p.guided && target != p.found.Node:
		p.search()
	}
}

func (p *Proxy) search() {
	if p.wanted && !p.asking {
		p.asking, p.askAt = true, p.now
		p.id++ // answers under way have earlier ids
	}
}

func (p *Proxy) ask() {
	if !p.asking || p.target.IsZero() {
		return
	}
	if !p.now.Before(p.askAt) {
		p.askAt = p.now.Add(p.config.Interval)
		p.out.Send = append(p.out.Send, Envelope{p.target, Message{Name: p.config.Name, Type: Identify, ID: p.id}})
	}
	p.out.WakeAt = p.askAt
}

func (p *Proxy) onIdentity(from transport.Address, m Message) {
	answer := p.asking && m.ID == p.id
	news := p.wanted && m.ID == 0 && m.Epoch > p.found.Epoch
	switch {
	case from != p.target || !answer && !news:
	case m.Instance.IsZero():
		p.why = m.Reason
	case !p.guided && m.Instance != from:
		// A member reports only its own instance; a guide reports the one that it
		// found.
	default:
		p.asking, p.why = false, ""
		p.found = Placement{m.Instance, m.Epoch}
		p.out.Found = &Placement{m.Instance, m.Epoch}
	}
}
