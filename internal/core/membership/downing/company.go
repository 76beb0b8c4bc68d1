package downing

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/detector"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/lease"
	"github.com/shardgen/shardgen/transport"
)

// A Company ends this node if it hears only a minority of the voters.
type Company struct {
	*core.Node
	Peers     *detector.Peers
	Beats     *detector.Heartbeats
	Voters    *lease.Voters
	Execution *Execution
	Majority  *Majority
	Last      time.Time // when the members that this node hears were last a winning side
	at        time.Time // when to look again
}

// runCompany ends this node if it hears only a minority of the voters although its own echoes
// return. Downing by evidence does not cover this case: if all neighbours fall silent at once, a
// node suspects itself and records no evidence.
func (c *Company) runCompany() {
	if !c.Due(&c.at, companyInterval) {
		return
	}
	if !c.Small() && c.Now.Sub(c.Beats.HalfHeard) <= c.Config.QuorumTimeout {
		c.Last = c.Now
		return
	}
	var side []transport.Address
	if c.Small() {
		for _, node := range append(c.Voters.Voters(), c.Voters.Newcomers()...) {
			if p := c.Peers.Known[node]; p != nil && c.Now.Sub(p.Company) <= c.Config.QuorumTimeout {
				side = gossip.WithAddress(side, node)
			}
		}
	}
	if c.Small() && c.Majority.wins(gossip.WithAddress(side, c.Config.Self)) {
		c.Last, c.Beats.HalfHeard = c.Now, c.Now
		return
	}
	alone := core.Later(c.Last, c.Peers.Cleared)
	// The lost members still counted as heard for QuorumTimeout.
	at := alone.Add(c.Config.SilentAfter - c.Config.QuorumTimeout)
	if c.Now.Before(at) {
		c.WakeAt(at)
		return
	}
	c.Execution.stopAsMinority(fmt.Sprintf("nothing was heard from a majority for %v", c.Config.SilentAfter))
}

// companyInterval is the time between two counts of the members that this node hears. It is short
// compared with QuorumTimeout.
const companyInterval = 200 * time.Millisecond
