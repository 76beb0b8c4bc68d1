package detector

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// Heartbeats sends heartbeats to the watched members.
type Heartbeats struct {
	*core.Node
	Echo  *Echo
	Peers *Peers

	watched []transport.Address // the neighbours on the ring
	// interest holds the members to which a heartbeat may be due, by address; it was made for the
	// summary madeFor. Stale is set when interest may lack a member.
	interest []subject
	madeFor  *gossip.Summary
	Stale    bool

	Threshold float64 // the y at which phi reaches Config.PhiThreshold; see phi.go
	seq       uint64
	// Loose is when this node last sent a loose message, which vouches for its receiver without
	// naming a heartbeat. See peers.go.
	Loose time.Time
	// AskAll is set while the lease of this node is in doubt; it then sends heartbeats to all
	// members.
	AskAll bool
	// HalfHeard is when half of the voters were last heard, through a collector or
	// directly.
	HalfHeard time.Time
}

type subject struct {
	*Peer
	node    transport.Address
	place   int // the index in Members
	watched bool
	accused bool // an observer has evidence against it
}

// firstAck is the time allowed for the answer to the first heartbeat. Without it, a peer that never
// answers would never be suspected.
const firstAck = time.Second

// beat sends a heartbeat. The first answer is expected within firstAck.
func (h *Heartbeats) beat(node transport.Address, p *Peer) {
	if !p.beaten {
		p.beaten, h.Stale = true, true
		p.phi = NewPhiDetector(h.Now.Add(firstAck), h.HeartbeatInterval())
	}
	h.seq++
	p.ask(h.seq, h.Now)
	if !h.Bound() {
		h.Loose = h.Now
	}
	h.Send(node, message.Heartbeat{
		Target: message.TargetOf(node), Seq: h.seq, Server: h.Mark, Heard: p.answered.seq, Bound: h.Bound(),
	})
}

func (h *Heartbeats) OnHeartbeat(in core.Receive, msg message.Heartbeat) {
	if msg.Target != message.TargetOf(h.Config.Self) {
		h.Refuse(core.RefusedTarget)
		return
	}
	if _, ok := h.Gossip.Member(in.From); !ok && h.Gossip.RemovalCounter >= gossip.MaxTombstones {
		// The sender is a new member, or one whose tombstone is forgotten. This node does not
		// answer until it knows which, because an answer makes the sender count on it.
		h.Refuse(core.RefusedStranger)
		return
	}
	h.Peers.KeptCompany(in.From)
	if msg.Bound {
		h.Peers.answeredBeat(in.From, msg.Heard)
	} else {
		h.Peers.Vouched(in.From)
	}
	h.Peers.NamedServer(in.From, in.Server, msg.Server)
	h.Peers.vouchFor(in.From, msg.Seq)
	h.Send(in.From, message.HeartbeatAck{Target: message.TargetOf(in.From), Seq: msg.Seq, Server: h.Mark})
}

func (h *Heartbeats) OnHeartbeatAck(in core.Receive, msg message.HeartbeatAck) {
	if _, ok := h.Gossip.Index(in.From); !ok || msg.Target != message.TargetOf(h.Config.Self) {
		return
	}
	h.Peers.KeptCompany(in.From)
	h.Peers.answeredBeat(in.From, msg.Seq)
	h.Peers.NamedServer(in.From, in.Server, msg.Server)
	p := h.Peers.Peer(in.From)
	p.acked = h.Now
	if p.beaten {
		p.phi.Heartbeat(h.Now, h.Config.PauseAllowance)
	}
}

// lookAround computes the ring neighbours that this node watches, and the further members that may
// need heartbeats. The further members are accused members, because members at the right server can
// confirm the accusation; suspected members; Down members, which must learn their status; and, in a
// small cluster, all members while AskAll is set.
func (h *Heartbeats) lookAround() {
	f := h.Local()
	if h.madeFor == f.Summary && !h.Stale {
		return
	}
	if h.madeFor != f.Summary {
		h.watched = f.Ring.Neighbours(h.Gossip.Members, h.Config.Self, h.Config.MonitoredBy, f.Evidence)
		slices.SortFunc(h.watched, transport.Address.Compare)
		h.madeFor = f.Summary
		//arch:order-free each peer is treated alike
		for node := range h.Peers.Known {
			if _, ok := h.Gossip.Index(node); !ok {
				delete(h.Peers.Known, node)
			}
		}
	}
	h.Stale = false
	list := slices.Clone(h.watched)
	if h.AskAll && h.Small() {
		list = h.Gossip.Addresses(placesOf(len(h.Gossip.Members)))
	}
	list = append(list, h.Gossip.Addresses(f.Accused)...)
	list = append(list, h.Gossip.Addresses(f.Down)...)
	//arch:order-free the list is sorted
	for node, p := range h.Peers.Known {
		if p.beaten || !p.Absent.IsZero() {
			list = append(list, node)
		}
	}
	slices.SortFunc(list, transport.Address.Compare)
	h.interest = h.interest[:0:0]
	for _, node := range slices.Compact(list) {
		i, ok := h.Gossip.Index(node)
		if !ok || i == f.Self || h.Gossip.Members[i].Fenced {
			continue
		}
		_, accused := slices.BinarySearch(f.Accused, i)
		h.interest = append(h.interest, subject{h.Peers.Peer(node), node, i, h.Watches(node), accused})
	}
}

func placesOf(n int) []int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	return places
}

func (h *Heartbeats) runBeats() {
	h.lookAround()
	own := h.Gossip.Records(h.Config.Self)
	for _, p := range h.interest {
		r := &h.Gossip.Members[p.place]
		suspected := r.Status == gossip.Down && h.tellsDown(own, p.node) || h.suspected(p.Peer)
		if !suspected && !h.beats(own, p, r.Status) {
			if p.beaten {
				p.beaten, h.Stale = false, true
			}
			continue
		}
		interval := h.HeartbeatInterval()
		if suspected {
			interval = min(interval, h.Config.ProbeInterval)
			if limit := h.Now.Add(interval); p.Beat.After(limit) {
				p.Beat = limit
			}
		}
		switch {
		case !h.Due(&p.Beat, interval):
		case r.Status == gossip.Down:
			// This is not a heartbeat, because a heartbeat would vouch for the Down
			// member. If the member is gone, the broker reports it.
			h.Send(p.node, message.Removal{Target: message.TargetOf(p.node)})
		default:
			h.beat(p.node, p.Peer)
		}
	}
}

// beats reports whether this node sends heartbeats to member p, which it does not suspect. It does
// so if p is a watched neighbour. In a small cluster it also does so if p is accused or if this
// node's lease is in doubt. In a large cluster, an accused member gets heartbeats from two kinds of
// nodes: nodes that can find the member gone, and its accusers, because only an accuser can
// withdraw its record.
func (h *Heartbeats) beats(own []gossip.Record, p subject, status gossip.Status) bool {
	switch {
	case status == gossip.Down:
		return false
	case p.watched:
		return true
	case h.Small():
		return p.accused || h.AskAll
	case gossip.HasRecord(own, p.node):
		return true
	}
	return p.accused && h.Local().Evidence[p.place] != gossip.EvidenceGone && h.Peers.SameServer(p.Peer)
}

// tellsDown reports whether this node must tell a Down member of its status. In a large cluster
// only the leader and the members that accused the Down member do so.
func (h *Heartbeats) tellsDown(own []gossip.Record, node transport.Address) bool {
	return h.Small() || h.Leads() || gossip.HasRecord(own, node)
}

func (h *Heartbeats) Watches(node transport.Address) bool {
	return gossip.HasAddress(h.watched, node)
}

// probeLong is how long a suspected member gets a probe in each ProbeInterval, in multiples of
// GoneAfter.
const probeLong = 5

func (h *Heartbeats) suspected(p *Peer) bool {
	long := probeLong * h.Config.GoneAfter
	if !p.Absent.IsZero() && h.Now.Sub(p.Absent) < long {
		return true
	}
	at := h.suspectAt(p)
	return p.beaten && !h.Now.Before(at) && h.Now.Sub(at) < long
}

func (h *Heartbeats) suspectAt(p *Peer) time.Time {
	return p.phi.SuspectAt(h.Threshold, h.Config.PauseAllowance)
}

// Suspect sends a heartbeat to a member at once, even if this node does not watch the member.
func (h *Heartbeats) Suspect(node transport.Address) {
	p := h.Peers.Peer(node)
	p.Beat = h.Now.Add(h.Config.ProbeInterval)
	h.beat(node, p)
	h.Stale = true
}

// NotListening records the broker's report that the peer has no subscription. This node then probes
// the peer, and does no more: a single report proves little, because the peer may be reconnecting.
func (h *Heartbeats) NotListening(node transport.Address) {
	r, ok := h.Gossip.Member(node)
	if !ok || r.Fenced || node == h.Config.Self {
		return
	}
	p := h.Peers.Peer(node)
	if p.Absent.IsZero() {
		p.Absent, h.Stale = h.Now, true
	}
	p.absentLast = h.Now
	p.absentCount++
}
