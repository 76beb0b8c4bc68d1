package singlehost

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/store"
	"github.com/shardgen/shardgen/transport"
)

// A caller is a process that calls one singleton and hosts none.
type caller struct {
	found    []transport.Address
	answers  []singleton.Message // answers sent to clients
	warnings []string            // texts of logged warnings
	gaveAway int                 // number of singletons that have left
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
func (c *caller) GaveAway()                   { c.gaveAway++ }
func (c *caller) Ignored()                    {}

func (c *caller) Log(l slog.Level, text string, _ ...any) {
	if l >= slog.LevelWarn {
		c.warnings = append(c.warnings, text)
	}
}
func (c *caller) LogSeldom(slog.Level, string, string, ...any) {}

func (c *caller) Callable(kind string) Callable {
	if kind != "Leader" {
		return nil
	}
	return c
}

func (c *caller) Found(node transport.Address, _ placement.Epoch, _ bool) {
	c.found = append(c.found, node)
}

// TestCallerSurvivesALostMember: a member that only calls a singleton still works when another
// member is lost, and has nothing to hand over. It does not look for types that are not singletons.
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

// TestClientIsGuidedByWhatIsKnown: a member answers a client with the result of its own search for
// the singleton. If no member hosts the type, the answer says so.
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

// TestWakesForAnOpening: a member that waits for its predecessor's state is woken when it has
// waited for openPatience.
func TestWakesForAnOpening(t *testing.T) {
	g := NewSet(&caller{}, "c", transport.Peer{Address: transport.Address{Name: "a", Incarnation: 1}})
	s := g.get("Leader")
	if at := g.WakeAt(); !at.IsZero() {
		t.Errorf("the set wakes at %v, although nothing is due", at)
	}
	until := time.Unix(1005, 0)
	s.opening = &opening{until: until}
	if at := g.WakeAt(); !at.Equal(until) {
		t.Errorf("the set wakes at %v, want %v", at, until)
	}
}

// leases is a store that answers requests to release a lease when the test says so.
type leases struct {
	Leases
	released []store.Held
	answer   func(error) // answers the last request
}

func (l *leases) Release(h store.Held, _ time.Duration, done func(error)) {
	l.released, l.answer = append(l.released, h), done
}

// TestLeaseThatIsNotReleased: a member whose instance has stopped has given the singleton away even
// if the store does not take the lease back. The lease then ends by itself, and a log line tells
// operators why the next instance begins late.
func TestLeaseThatIsNotReleased(t *testing.T) {
	for _, answer := range []error{nil, errors.New("the store is down")} {
		c, self := &caller{}, transport.Address{Name: "a", Incarnation: 1}
		g := NewSet(c, "c", transport.Peer{Address: self})
		s, l := g.get("Leader"), &leases{}
		var err error
		s.manager, err = singleton.New(singleton.Config{Name: namePrefix + "Leader", Self: self, HandoffAt: handoffAt, Options: singleton.Options{Lease: true}})
		if err != nil {
			t.Fatal(err)
		}
		s.holder = newLeaseHolder(s, l, time.Second)
		s.holder.held.Token = 7
		view := func(status membership.Status) singleton.View {
			return singleton.View{Members: []singleton.Member{{Address: self, Status: status, UpNumber: 1}}}
		}
		// The instance has run. It stops, and does not run here again.
		for _, in := range []singleton.Input{
			view(membership.Up), singleton.LeaseAcquired{}, singleton.InstanceStarted{}, view(membership.Leaving), singleton.Quit{},
		} {
			s.manager.Step(c.Now(), in)
		}
		s.step(singleton.InstanceStopped{})
		if len(l.released) != 1 || l.released[0].Token != 7 {
			t.Fatalf("released: %+v, want the lease that is held", l.released)
		}
		if c.gaveAway != 0 || !s.manager.Holds() {
			t.Error("the singleton was given away before the store has answered")
		}
		l.answer(answer)
		if c.gaveAway != 1 || s.manager.Holds() {
			t.Errorf("answer %v: the singleton was given away %d times and is here: %v", answer, c.gaveAway, s.manager.Holds())
		}
		told := 0
		for _, text := range c.warnings {
			if strings.Contains(text, "lease not released") {
				told++
			}
		}
		if told > 1 || (told == 1) != (answer != nil) {
			t.Errorf("answer %v: got warnings %q", answer, c.warnings)
		}
	}
}
