package detector

import (
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A Suspicion weighs the evidence of heartbeats, and writes this node's records about silent
// members into the gossiped state.
type Suspicion struct {
	*core.Node
	Echo  *Echo
	Peers *Peers
	Beats *Heartbeats
}

// RunDetection sends the heartbeats that are due, and then updates this node's records of other
// members by the evidence. While this node's echoes do not return, the records stay as they are.
func (s *Suspicion) RunDetection() {
	s.Beats.runBeats()
	if !s.Echo.EchoAlive() {
		return
	}
	most := s.mostQuiet()
	records := s.Gossip.Records(s.Config.Self)
	for _, p := range s.Beats.interest {
		held, marked := gossip.Record{}, false
		if len(records) > 0 {
			held, marked = gossip.RecordOf(records, p.node)
		}
		// Any message from the member proves that it has a subscription. If the record were not
		// withdrawn at once, the member would count as gone while others count on it again.
		if marked && (p.acked.After(p.marked) || held.Evidence >= gossip.EvidenceCut && p.heard.After(p.marked)) {
			s.MarkAs(p.node, gossip.NoEvidence, 0)
			held = gossip.Record{}
		}
		s.askServer(p)
		e, quiet := s.weigh(p, most)
		if s.Gossip.Members[p.place].Status == gossip.Down && e < gossip.EvidenceLost {
			continue // it is judged already; only proofs that it has lost its connection add something
		}
		if e > held.Evidence {
			p.marked = s.Now
			s.MarkAs(p.node, e, quiet)
		}
	}
}

// RetractAll withdraws all records of this node.
func (s *Suspicion) RetractAll() {
	for _, r := range s.Gossip.Records(s.Config.Self) {
		s.MarkAs(r.Subject, gossip.NoEvidence, 0)
	}
}

// MarkAs records evidence e against a member that was silent for the duration quiet. NoEvidence
// withdraws the record.
func (s *Suspicion) MarkAs(node transport.Address, e gossip.Evidence, quiet time.Duration) {
	held, _ := s.Gossip.Record(s.Config.Self, node)
	s.Change(func(g *gossip.State) {
		g.Rows = gossip.WithRecord(g.Rows, s.Config.Self, gossip.Record{Subject: node, Evidence: e, Quiet: quiet.Truncate(time.Millisecond), Vouched: held.Vouched})
	})
}

// askServer asks the server of a member whether somebody listens for the member, if this node's
// server reports no subscription of the member. It asks only in clusters where EvidenceLost counts:
// see [core.Node.Bound].
func (s *Suspicion) askServer(p subject) {
	if p.Absent.IsZero() || !s.Bound() || p.server == 0 || p.server == s.Mark {
		return
	}
	interval := s.Config.ProbeInterval
	if s.Now.Sub(p.Absent) >= probeLong*s.Config.GoneAfter {
		interval = s.HeartbeatInterval()
	}
	p.elsewhere.Ask(&s.Base, p.node, p.server, interval)
}

// probeFirst is how long a silent member of a large cluster is probed before a record is made. It
// is short compared with SilentAfter.
const probeFirst = 2 * time.Second

// absentProbes is how often the broker must report no listener before a member counts as cut, lost
// or gone.
const absentProbes = 3

func (s *Suspicion) weigh(p subject, most bool) (e gossip.Evidence, quiet time.Duration) {
	if !p.Absent.IsZero() {
		at := core.Later(p.Absent, p.returns).Add(s.Config.GoneAfter)
		fresh := s.Now.Sub(p.absentLast) <= absentProbes*s.Config.ProbeInterval
		if !s.Now.Before(at) && p.absentCount >= absentProbes && fresh {
			e := gossip.EvidenceCut
			if s.Peers.SameServer(p.Peer) {
				e = gossip.EvidenceGone
			} else if p.elsewhere.Lost(p.server, s.Config.GoneAfter, s.Config.ProbeInterval, s.Now) {
				e = gossip.EvidenceLost
			}
			return e, s.Now.Sub(p.Absent)
		}
	}
	if !p.beaten {
		return gossip.NoEvidence, 0
	}
	at := s.Beats.suspectAt(p.Peer)
	if !s.Small() {
		// A record is spread to all, so the member is probed for a while first.
		at = at.Add(probeFirst)
		if !p.watched {
			return gossip.NoEvidence, 0 // only its observers are counted
		}
	}
	if most && (s.Small() || s.Now.Sub(s.Beats.HalfHeard) > s.Config.QuorumTimeout) {
		// The fault is more likely at this node. Package downing (Company) decides whether this
		// node is alone. A member that stays silent then gets a record, so that the surviving half
		// can go on. A node that hears from half of all members through a collector is not alone.
		at = core.Later(at, p.phi.last.Add(s.Config.SilentAfter))
	}
	if s.Now.Before(at) {
		s.WakeAt(at)
		return gossip.NoEvidence, 0
	}
	return gossip.EvidenceSilent, s.Now.Sub(p.phi.last)
}

// mostPeers is the number of watched members from which mostQuiet applies.
const mostPeers = 4

// mostQuiet reports whether most watched members fell silent together, a sign of a fault of this
// node. It notices silence earlier than the suspicion of a single member does, so that no first
// member is accused too soon. Members without a subscription do not count.
func (s *Suspicion) mostQuiet() bool {
	watched, quiet := 0, 0
	for _, p := range s.Beats.interest {
		if !p.watched || !p.beaten || !p.Absent.IsZero() {
			continue
		}
		watched++
		if s.Now.Sub(p.phi.last) > s.Config.PauseAllowance/2+s.HeartbeatInterval() {
			quiet++
		}
	}
	return watched >= mostPeers && 2*quiet > watched
}

// ReportVouches completes this node's records of Down members: it adds to each record when this
// node last vouched for the member. A loose message vouches too, and nobody knows when a Down
// member receives it. So ReportVouches waits until SilentAfter has passed since this node's last
// loose message.
func (s *Suspicion) ReportVouches() {
	if s.Phase != core.Joined || len(s.Local().Down) == 0 || s.Now.Sub(s.Beats.Loose) <= s.Config.SilentAfter {
		return
	}
	var reported []gossip.Record
	for _, held := range s.Gossip.Records(s.Config.Self) {
		r, _ := s.Gossip.Member(held.Subject)
		p := s.Peers.Known[held.Subject]
		if r.Status != gossip.Down || r.Fenced || held.Evidence == gossip.EvidenceGone || held.Vouched != 0 || p == nil || p.answered.at.IsZero() {
			continue
		}
		held.Vouched = max(s.Now.Sub(p.answered.at).Truncate(time.Millisecond), time.Millisecond)
		reported = append(reported, held)
	}
	if len(reported) == 0 {
		return
	}
	s.Change(func(g *gossip.State) {
		for _, held := range reported {
			g.Rows = gossip.WithRecord(g.Rows, s.Config.Self, held)
		}
	})
}
