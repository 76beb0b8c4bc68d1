package control

import (
	"slices"

	"github.com/shardgen/shardgen/internal/identity"
	"github.com/shardgen/shardgen/internal/wire"
	"github.com/shardgen/shardgen/runtime/coordinator"
	"github.com/shardgen/shardgen/transport"
)

// accepted are the topics on which each class of process may send to a member. What a client may
// say on them is narrowed further where they are read: to the hello, the probe and the goodbye
// of gateway.message, to the search for a singleton, and to the questions of asksTable.
// Operators' requests are divided in operators.message.
var accepted = map[identity.Class][]wire.ControlTopic{
	identity.Member: {
		wire.ControlTopic_CONTROL_TOPIC_MEMBERSHIP, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR,
		wire.ControlTopic_CONTROL_TOPIC_GATEWAY, wire.ControlTopic_CONTROL_TOPIC_REMEMBER, wire.ControlTopic_CONTROL_TOPIC_DIRECT,
	},
	identity.Client: {
		wire.ControlTopic_CONTROL_TOPIC_GATEWAY, wire.ControlTopic_CONTROL_TOPIC_SINGLETON, wire.ControlTopic_CONTROL_TOPIC_COORDINATOR,
		wire.ControlTopic_CONTROL_TOPIC_DIRECT,
	},
	identity.Reader:   {wire.ControlTopic_CONTROL_TOPIC_ADMIN},
	identity.Operator: {wire.ControlTopic_CONTROL_TOPIC_ADMIN},
}

// accepts reports whether a process may send on the topic. Topics that only a later release
// knows are accepted from members, which are trusted, so that they are counted as such.
func accepts(from transport.Peer, topic wire.ControlTopic) bool {
	class := identity.Of(from.Incarnation)
	if _, known := wire.ControlTopic_name[int32(topic)]; !known {
		return class == identity.Member
	}
	return slices.Contains(accepted[class], topic)
}

// asksTable reports whether a message of the coordinator's protocol is one that a client sends.
func asksTable(m coordinator.Message) bool {
	switch m.(type) {
	case coordinator.TableRequest, coordinator.Ask:
		return true
	}
	return false
}

// forbid counts a message that its sender's class may not send.
func (m *Member) forbid(from transport.Peer, what string) {
	if n, tell := m.env.CountOf(Forbidden, from.Name); tell {
		m.env.Log(Warn, "message refused: its sender may not send it", "from", from.Address.String(),
			"class", identity.Of(from.Incarnation).String(), "message", what, "count", n)
	}
}
