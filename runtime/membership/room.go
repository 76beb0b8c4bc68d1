package membership

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/membership/message"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// MessageLimit says how many bytes of an encoded message the present connection
// takes. The driver says so before anything else, and whenever it changes. 0, as
// before the first one: any number.
type MessageLimit struct{ Bytes int }

func (MessageLimit) input() {}

// Room that an admitted member may come to need, besides what it told of itself:
// for its place in clocks and tombstones, and for what its watchers hold against it.
const (
	memberRoom = 24
	recordRoom = 12
	stateRoom  = 512
)

// tooLarge returns why the state does not fit a message with these joiners in it; ""
// if it does. What members may come to need is counted in, so that later changes of
// those who were admitted always fit.
func (m *Machine) tooLarge(joiners []gossip.Member) string {
	if m.limit <= 0 || m.atMost(joiners) <= m.limit {
		return ""
	}
	g := m.state.ChangedBy(m.config.Self, func(g *gossip.State) {
		for _, r := range joiners {
			g.SetMember(r)
		}
	})
	b, err := message.Encode(message.Gossip{State: g})
	if err != nil {
		return err.Error()
	}
	room := stateRoom + len(g.Members)*(memberRoom+recordRoom*m.config.Watched)
	if len(b)+room <= m.limit {
		return ""
	}
	return fmt.Sprintf("the cluster's state would have %d bytes with it, and %d for what its %d members may come to need, and the broker takes %d in a message (raise its max_payload)",
		len(b), room, len(g.Members), m.limit)
}

// atMost is a size that the state with these joiners stays below, and is quickly found.
func (m *Machine) atMost(joiners []gossip.Member) int {
	size := stateRoom
	for _, list := range [][]gossip.Member{m.state.Members, joiners} {
		for _, r := range list {
			size += 2*memberRoom + recordRoom*m.config.Watched + len(r.Name) + gossip.DescriptionSize(r.Roles, r.Meta) + 16*(len(r.Roles)+len(r.Meta))
		}
	}
	for _, t := range m.state.Tombstones {
		size += 2*memberRoom + len(t.Node.Name)
	}
	for _, row := range m.state.Rows {
		size += memberRoom + recordRoom*len(row.Records)
	}
	return size
}

// onMessageLimit: a smaller limit may leave the state without room.
func (m *Machine) onMessageLimit(in MessageLimit) {
	m.limit = in.Bytes
	if m.phase != member || m.limit <= 0 {
		return
	}
	if b, err := message.Encode(message.Gossip{State: m.state}); err == nil && len(b) > m.limit {
		m.emit(StateTooLarge{Bytes: len(b), Limit: m.limit})
	}
}
