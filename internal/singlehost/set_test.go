package singlehost

import (
	"testing"
	"time"

	"github.com/shardgen/shardgen/internal/loglevel"
	"github.com/shardgen/shardgen/internal/singleton"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

// caller is a process that calls one singleton and hosts none.
type caller struct {
	found   []transport.Address
	answers []singleton.Message // to clients
}

func (c *caller) Now() time.Time { return time.Unix(1000, 0) }
func (c *caller) Send(to transport.Peer, m singleton.Message) {
	if to.Client {
		c.answers = append(c.answers, m)
	}
}
func (c *caller) SetWhy(string, string)       {}
func (c *caller) Post(f func())               { f() }
func (c *caller) View() *membership.View      { return nil }
func (c *caller) Broadcast(singleton.Message) {}
func (c *caller) Clients() []transport.Peer   { return nil }
func (c *caller) GaveAway()                   {}
func (c *caller) Ignored()                    {}

func (c *caller) Log(loglevel.Level, string, ...any)               {}
func (c *caller) LogSeldom(loglevel.Level, string, string, ...any) {}

func (c *caller) Callable(kind string) Callable {
	if kind != "Leader" {
		return nil
	}
	return c
}

func (c *caller) Found(node transport.Address, _ placement.Epoch, _ bool) {
	c.found = append(c.found, node)
}

// TestCallerSurvivesALostMember: a member that only calls a singleton has nothing to hand
// over when another one is lost, and types that are no singletons are not taken for one.
func TestCallerSurvivesALostMember(t *testing.T) {
	c := &caller{}
	g := NewSet(c, "c", transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}})
	if g.Want("Account") {
		t.Error("a type that is no singleton is looked for as one")
	}
	if !g.Want("Leader") {
		t.Error("the singleton is not looked for")
	}
	g.Lost(transport.Address{Name: "b", Incarnation: 1})
	if !g.Settled() {
		t.Error("a member without instances is not settled")
	}
}

// TestClientIsGuidedByWhatIsKnown: a member answers a client by what its own search for the singleton
// found, and says that nobody hosts a type that no member has.
func TestClientIsGuidedByWhatIsKnown(t *testing.T) {
	c := &caller{}
	g := NewSet(c, "c", transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}})
	g.Want("Leader")
	client := transport.Peer{Address: transport.Address{Name: "web", Incarnation: 1}, Client: true}
	for _, kind := range []string{"Leader", "Other"} {
		g.Message(client, singleton.Message{Name: namePrefix + kind, Type: singleton.Identify, ID: 7})
	}
	if len(c.answers) != 2 {
		t.Fatalf("%d answers, want 2", len(c.answers))
	}
	const nobody = "no member hosts it"
	if why := c.answers[0].Reason; why == nobody || why == "" {
		t.Errorf("the singleton that is looked for: %q", why)
	}
	if why := c.answers[1].Reason; why != nobody {
		t.Errorf("the type that nobody hosts: %q", why)
	}
}

// TestWakesForAnOpening: a member that waits for its predecessor's state looks again when it has
// waited long enough.
func TestWakesForAnOpening(t *testing.T) {
	g := NewSet(&caller{}, "c", transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}})
	s := g.get("Leader")
	if at := g.WakeAt(); !at.IsZero() {
		t.Errorf("it wakes at %v for nothing", at)
	}
	until := time.Unix(1005, 0)
	s.opening = &opening{until: until}
	if at := g.WakeAt(); !at.Equal(until) {
		t.Errorf("it wakes at %v, want %v", at, until)
	}
}
