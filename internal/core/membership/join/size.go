package join

import (
	"fmt"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
)

// Bytes that the state may later need for an admitted member, besides its description: entries in
// clocks, tombstones, and observers' records.
const (
	memberRoom = 24
	recordRoom = 12
	stateRoom  = 512
)

// A Size keeps the encoded state within the broker's limit for a message.
type Size struct {
	*core.Node
	limit int // bytes of a message; 0 means any number
}

// tooLarge returns the reason why the state with these joiners does not fit in a message, or "". It
// leaves room for later changes of the state.
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
	room := stateRoom + len(g.Members)*(memberRoom+recordRoom*s.Config.MonitoredBy)
	if len(b)+room <= s.limit {
		return ""
	}
	return fmt.Sprintf("the cluster's state would have %d bytes with it, %d more may be needed later by its %d members, and the broker accepts %d in a message (raise its max_payload)",
		len(b), room, len(g.Members), s.limit)
}

// atMost returns an upper bound for the size of the encoded state, without encoding it.
func (s *Size) atMost(joiners []gossip.Member) int {
	size := stateRoom
	for _, list := range [][]gossip.Member{s.Gossip.Members, joiners} {
		for _, r := range list {
			size += 2*memberRoom + recordRoom*s.Config.MonitoredBy + len(r.Name) + gossip.DescriptionSize(r.Roles, r.Meta) + 16*(len(r.Roles)+len(r.Meta))
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

// OnMessageLimit handles a change of the limit. If the present state exceeds a smaller limit, it
// emits StateTooLarge.
func (s *Size) OnMessageLimit(in core.MessageLimit) {
	s.limit = in.Bytes
	if s.Phase != core.Joined || s.limit <= 0 {
		return
	}
	if b, err := message.Encode(message.Gossip{State: s.Gossip}); err == nil && len(b) > s.limit {
		s.Emit(core.StateTooLarge{Bytes: len(b), Limit: s.limit})
	}
}
