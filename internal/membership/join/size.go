package join

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/internal/membership/message"
)

// Room that an admitted member may come to need, besides its own description: for its
// entries in clocks and tombstones, and for its watchers' records against it.
const (
	memberRoom = 24
	recordRoom = 12
	stateRoom  = 512
)

// A Size keeps the encoded state within the broker's limit for messages.
type Size struct {
	*core.Node
	limit int // bytes of a message; 0: any number
}

// tooLarge returns why the state does not fit a message with these joiners in it; "" if
// it does. The room that members may come to need is counted in, so that later changes of
// admitted members always fit.
func (s *Size) tooLarge(joiners []gossip.Member) string {
	if s.limit <= 0 || s.atMost(joiners) <= s.limit {
		return ""
	}
	g := s.Gossip.ChangedBy(s.Config.Self, func(g *gossip.State) {
		for _, r := range joiners {
			g.SetMember(r)
		}
	})
	b, err := message.Encode(message.Gossip{State: g})
	if err != nil {
		return err.Error()
	}
	room := stateRoom + len(g.Members)*(memberRoom+recordRoom*s.Config.Watched)
	if len(b)+room <= s.limit {
		return ""
	}
	return fmt.Sprintf("the cluster's state would have %d bytes with it, and %d for what its %d members may come to need, and the broker takes %d in a message (raise its max_payload)",
		len(b), room, len(g.Members), s.limit)
}

// atMost is a size that the state with these joiners stays below, and is quickly found.
func (s *Size) atMost(joiners []gossip.Member) int {
	size := stateRoom
	for _, list := range [][]gossip.Member{s.Gossip.Members, joiners} {
		for _, r := range list {
			size += 2*memberRoom + recordRoom*s.Config.Watched + len(r.Name) + gossip.DescriptionSize(r.Roles, r.Meta) + 16*(len(r.Roles)+len(r.Meta))
		}
	}
	for _, t := range s.Gossip.Tombstones {
		size += 2*memberRoom + len(t.Node.Name)
	}
	for _, row := range s.Gossip.Rows {
		size += memberRoom + recordRoom*len(row.Records)
	}
	return size
}

// OnMessageLimit: a smaller limit may leave the state without room.
func (s *Size) OnMessageLimit(in core.MessageLimit) {
	s.limit = in.Bytes
	if s.Phase != core.Joined || s.limit <= 0 {
		return
	}
	if b, err := message.Encode(message.Gossip{State: s.Gossip}); err == nil && len(b) > s.limit {
		s.Emit(core.StateTooLarge{Bytes: len(b), Limit: s.limit})
	}
}
