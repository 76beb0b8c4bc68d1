package downing

import (
	"maps"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// Unreachables records since when each member has been unreachable.
type Unreachables struct {
	*core.Node
	Agreement *Agreement
	since     map[transport.Address]time.Time // when this node first saw it unreachable
	absent    map[transport.Address]time.Time // when this node first saw it Cut, Lost or Gone
	noted     *gossip.Summary                 // the view that was noted last
}

func (u *Unreachables) noteUnreachable() {
	f := u.Local()
	if u.noted == f.Summary {
		return
	}
	u.noted = f.Summary
	u.Agreement.noteMissed()
	u.note(u.since, gossip.EvidenceSilent)
	u.note(u.absent, gossip.EvidenceCut)
}

func (u *Unreachables) note(times map[transport.Address]time.Time, least gossip.Evidence) {
	f := u.Local()
	maps.DeleteFunc(times, func(node transport.Address, _ time.Time) bool {
		i, ok := u.Gossip.Index(node)
		return !ok || f.Evidence[i] < least || u.Gossip.Members[i].Status == gossip.Down
	})
	for _, i := range f.Unreachable {
		r := u.Gossip.Members[i]
		if _, ok := times[r.Address]; !ok && f.Evidence[i] >= least && r.Status != gossip.Down {
			times[r.Address] = u.Now
		}
	}
}
