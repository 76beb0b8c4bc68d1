package node

import "github.com/shardgen/shardgen/runtime/measure"

// LoadHosted fills in the part of a type that is hosted.
func LoadHosted(t *measure.Type, h *Host) {
	for i := range h.Shards {
		s := &h.Shards[i]
		o, ok := s.Held()
		if !ok {
			continue
		}
		t.Shards[o.State.String()]++
		s.Mu.Lock()
		t.Entities += s.Core.Entities()
		t.Active += s.Core.Active()
		t.Opening += s.Core.Waiting()
		t.Queued += s.Core.Queued()
		t.WaitingBytes += int64(s.Core.Bytes())
		s.Mu.Unlock()
	}
	h.tally.load(t)
}
