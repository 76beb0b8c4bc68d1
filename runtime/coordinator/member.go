package coordinator

import (
	"slices"
	"strings"

	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/runtime/singleton"
	"github.com/shardgen/shardgen/transport"
)

// A member is one process of the cluster. One that has registered and was removed is kept until
// recovery ends, because its reports about its moves still count.
type member struct {
	Member
	present  bool      // in the last view
	register *Register // the latest; nil until it registered
	hosts    map[string]bool
	kept     map[string]placement.Epoch // the pins that it keeps, by kind
	// pauseKept is the latest change of the pause that it keeps.
	pauseKept placement.Epoch
}

// alive reports whether the member can still be the home of shards.
func (m *member) alive() bool { return m.present && m.Status != singleton.Down }

// awaited reports whether recovery has to wait for the member.
func (m *member) awaited() bool { return m.alive() && m.Hosts && m.register == nil }

// home reports whether the member may be given shards of the kind.
func (m *member) home(kind string) bool {
	return m.present && m.Status == singleton.Up && !m.Unreachable && m.hosts[kind]
}

// knows reports whether the member registered the kind and agreed about it: hosting
// it or, with shards that it still has, not any more.
func (m *member) knows(kind string) bool {
	_, ok := m.hosts[kind]
	return ok
}

// A roster has the members of the cluster and their registrations.
type roster struct {
	step
	members map[transport.Address]*member
	order   []transport.Address // keys of members, sorted
	view    View
	// recovered reports whether every member that hosts types has registered, so that
	// shards may be given and moved.
	recovered bool
	waiting   string // the members that recovery waits for, to report each set once
}

func (c *roster) alive(a transport.Address) bool {
	m := c.members[a]
	return m != nil && m.alive()
}

// forget drops a member for good.
func (c *roster) forget(a transport.Address) {
	delete(c.members, a)
	if i, ok := slices.BinarySearchFunc(c.order, a, transport.Address.Compare); ok {
		c.order = slices.Delete(c.order, i, i+1)
	}
}

// unreachable names the members that stand in the way of convergence.
func (c *roster) unreachable() string {
	var names []string
	for _, a := range c.order {
		if m := c.members[a]; m.alive() && m.Unreachable {
			names = append(names, a.Name)
		}
	}
	if names == nil {
		return ""
	}
	return " (" + strings.Join(names, ", ") + " unreachable)"
}
