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
type caller struct{ found []transport.Address }

func (c *caller) Now() time.Time                         { return time.Unix(1000, 0) }
func (c *caller) Send(transport.Peer, singleton.Message) {}
func (c *caller) SetWhy(string, string)                  {}
func (c *caller) Post(f func())                          { f() }
func (c *caller) View() *membership.View                 { return nil }
func (c *caller) Broadcast(singleton.Message)            {}
func (c *caller) Clients() []transport.Peer              { return nil }
func (c *caller) GaveAway()                              {}
func (c *caller) Ignored()                               {}

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
