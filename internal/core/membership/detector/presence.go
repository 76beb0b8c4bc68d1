package detector

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
)

// AliveEarly is how long after joining a member broadcasts Alive every second, so that two clusters
// that were formed at the same time meet soon.
const AliveEarly = 10 * time.Second

// A Presence broadcasts that this node is alive, and detects other clusters of the same name.
type Presence struct {
	*core.Node
	Peers *Peers
	Beats *Heartbeats
	At    time.Time // when the next broadcast is due
}

// aliveInterval is the time between two [message.Alive] broadcasts. If there are more than
// MonitoredBy+1 members, they need these broadcasts to hear from a majority within QuorumTimeout.
func (a *Presence) aliveInterval() time.Duration {
	n := len(a.Gossip.Members)
	switch {
	case !a.Small() && a.Now.Sub(a.MemberSince) >= AliveEarly:
		return 10 * time.Second
	case n > a.Config.MonitoredBy+1 || a.Now.Sub(a.MemberSince) < AliveEarly:
		return time.Second
	}
	return 5 * time.Second
}

// RunAlive broadcasts Alive when the broadcast is due. In a large cluster only the leader does so.
func (a *Presence) RunAlive() {
	if a.Due(&a.At, a.aliveInterval()) && (a.Small() || a.Leads()) {
		a.Broadcast(a.alive())
	}
}

func (a *Presence) alive() message.Alive {
	f := a.Local()
	if !a.Bound() {
		a.Beats.Loose = a.Now
	}
	return message.Alive{Founder: a.Gossip.Founder, Size: uint32(f.Fulls), Barred: f.Barred, Server: a.Mark, Bound: a.Bound()}
}

// OnAlive handles Alive from a member, or from another cluster of the same name. Of two such
// clusters the smaller gives way; of two equally large clusters, the one that has the later
// founder.
func (a *Presence) OnAlive(in core.Receive, msg message.Alive) {
	if msg.Founder == a.Gossip.Founder {
		if msg.Barred == a.Local().Barred { // this node is not
			a.Peers.KeptCompany(in.From)
			if !msg.Bound {
				a.Peers.Vouched(in.From)
			}
		}
		a.Peers.NamedServer(in.From, in.Server, msg.Server)
		return
	}
	mine := uint32(a.Local().Fulls)
	if mine > msg.Size || mine == msg.Size && gossip.FounderBefore(a.Gossip.Founder, msg.Founder) {
		a.Send(in.From, a.alive()) // it need not wait for the next broadcast
		return
	}
	a.Publish()
	a.Emit(core.SelfDowned{
		Reason: "there is another cluster of this name, formed by " + msg.Founder.String() + ", and it is larger or older",
		Rejoin: true,
	})
	a.End()
}
