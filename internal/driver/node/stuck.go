package node

import (
	"fmt"
	"time"
)

// StuckShards names the first durable shard of the type that is placed here and has not opened for too
// long, with the cause and the remedy, and the number of the others; "" means there is none.
func (h *Host) StuckShards(now time.Time) string {
	if !h.Desc.Durable {
		return ""
	}
	text, more := "", 0
	h.eachShard(-1, func(s *HostedShard) {
		st, ok := s.Durable.Stuck(now)
		switch {
		case !ok:
		case text == "":
			text = fmt.Sprintf("durable shard %v has not opened for %v: %s", s.ID, st.For, st.Why)
		default:
			more++
		}
	})
	if more > 0 {
		text += fmt.Sprintf("; and %d more shards of %s", more, h.Desc.Name)
	}
	return text
}
