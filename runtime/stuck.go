package shard

import (
	"fmt"
	"time"
)

// stuckShards names the first durable shard of the type that is placed here and has not opened for too
// long, with the cause and the remedy, and the number of the others; "" means there is none.
func (h *host) stuckShards(now time.Time) string {
	if !h.desc.Durable {
		return ""
	}
	text, more := "", 0
	h.eachShard(-1, func(s *hostedShard) {
		st, ok := s.durable.Stuck(now)
		switch {
		case !ok:
		case text == "":
			text = fmt.Sprintf("durable shard %v has not opened for %v: %s", s.ID, st.For, st.Why)
		default:
			more++
		}
	})
	if more > 0 {
		text += fmt.Sprintf("; and %d more shards of %s", more, h.desc.Name)
	}
	return text
}
