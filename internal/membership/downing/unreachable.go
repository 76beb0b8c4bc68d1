package downing

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/core"
	"github.com/shardgen/shardgen/internal/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// Unreachables keeps since when members are unreachable.
type Unreachables struct {
	*core.Node
	Agreement *Agreement
	since     map[transport.Address]time.Time // when this node first saw it
	noted     *gossip.Summary                 // the view for which since was kept last
}

// noteUnreachable keeps since: for members that are unreachable and may be downed.
func (u *Unreachables) noteUnreachable() {
	f := u.Local()
	if u.noted == f.Summary {
		return
	}
	u.noted = f.Summary
	u.Agreement.noteMissed()
	//arch:order-free each entry is treated alike
	for node := range u.since {
		if i, ok := u.Gossip.Index(node); !ok || f.Evidence[i] == gossip.NoEvidence || u.Gossip.Members[i].Status == gossip.Down {
			delete(u.since, node)
		}
	}
	for _, i := range f.Unreachable {
		r := u.Gossip.Members[i]
		if _, ok := u.since[r.Address]; !ok && r.Status != gossip.Down {
			u.since[r.Address] = u.Now
		}
	}
}
