package downing

import "github.com/shardgen/shardgen/internal/membership/gossip"

// autoDown downs members that were unreachable for long enough, if this node is the
// leader.
func (s *Splits) autoDown() {
	if !s.Leads() {
		return
	}
	var victims []gossip.Member
	for _, i := range s.Local().Unreachable {
		r := s.Gossip.Members[i]
		since, ok := s.Unreachable.since[r.Address]
		if !ok || r.Address == s.Config.Self {
			continue
		}
		if at := since.Add(s.Config.AutoDownAfter); s.Now.Before(at) {
			s.WakeAt(at)
			continue
		}
		victims = append(victims, r)
	}
	s.Execution.downTogether(victims)
}
