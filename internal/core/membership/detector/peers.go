package detector

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/transport"
)

// A node runs turns only while a majority has lately vouched for it (see package lease). The time
// from which a message vouches for its receiver depends on the cluster.
//
// If all members watch each other (see [core.Node.Bound]), a message vouches only if it is bound to
// a heartbeat H of the receiver: it answers H, or is a later heartbeat that names H. The lease then
// counts from when the receiver sent H, so it does not matter how long the message was on its way,
// or waited in the socket of a paused process. The sender of the message knows an upper bound of
// that time: when H arrived. So when a member is downed, its lease ends QuorumTimeout after the
// last heartbeat that any other member had from it, rather than after the judgement. Once another
// member knows of the downing, it no longer vouches for the Down member, and reports when that
// heartbeat arrived (Vouched of its record). Package downing's Fence counts from the latest of
// these times.
//
// In larger clusters most members hear from each other by broadcast alone. Such messages are loose:
// they count from when they left the broker, as far as the receiver can know that. No other node
// can know it.

// Peers holds what this node has observed of each other member through its own connection.
type Peers struct {
	*core.Node
	Echo    *Echo
	Known   map[transport.Address]*Peer
	Cleared time.Time // when all evidence was last dropped
	// mark and alone describe the server of the last connection: its fingerprint, and whether the
	// broker has no other server.
	mark  message.ServerMark
	alone bool
}

// Peer returns this node's observations of a node, and adds an empty entry if there is none.
func (ps *Peers) Peer(node transport.Address) *Peer {
	p := ps.Known[node]
	if p == nil {
		p = &Peer{}
		ps.Known[node] = p
	}
	return p
}

// Heard records a sign of life, which refutes earlier reports of the broker that the node has no
// subscription.
func (ps *Peers) Heard(node transport.Address) {
	if p := ps.Known[node]; p != nil {
		p.heard = ps.Now
		p.listens()
	}
}

// NamedServer records two broker instances: server, which a message's sender names as its own, and
// via, through which the message came here. An empty via stands for this node's present instance.
func (ps *Peers) NamedServer(from transport.Address, via string, server message.ServerMark) {
	if _, ok := ps.Gossip.Index(from); !ok {
		return
	}
	p := ps.Peer(from)
	p.server, p.via, p.carried = server, ps.Mark, time.Time{}
	if via != "" && via != ps.Conn.Server {
		p.via = message.MarkOf(via)
	}
}

// SameServer reports whether the peer is connected to this node's broker instance and was heard
// through that instance. After this node has reconnected, what it knew before counts only once
// another member has vouched for it through the new connection. Until then the peer may have found
// this node gone, and two members must not find each other gone.
func (ps *Peers) SameServer(p *Peer) bool {
	return p.server != 0 && p.server == ps.Mark && p.via == ps.Mark && (p.carried.IsZero() || ps.vouchedSince(p.carried))
}

// WasMate reports whether a node was at the server of this node's last connection.
func (ps *Peers) WasMate(node transport.Address) bool {
	p := ps.Known[node]
	return p != nil && p.server != 0 && p.server == ps.mark && p.via == ps.mark
}

// Asked handles the answer of a peer's own server.
func (ps *Peers) Asked(in core.Asked) {
	if p := ps.Known[in.Peer]; p != nil {
		p.elsewhere.Answered(in, ps.Now)
	}
}

func (ps *Peers) vouchedSince(then time.Time) bool {
	//arch:order-free any of them is enough
	for _, p := range ps.Known {
		if p.Vouched.After(then) {
			return true
		}
	}
	return false
}

func (ps *Peers) answeredBeat(from transport.Address, seq uint64) {
	if _, ok := ps.Gossip.Member(from); !ok {
		return
	}
	p := ps.Peer(from)
	i := slices.IndexFunc(p.asked, func(b sentBeat) bool { return b.seq == seq })
	if i < 0 {
		return // too old to prolong a lease, or none of this node's
	}
	p.Vouched = core.Later(p.Vouched, p.asked[i].sent)
	p.asked = slices.Delete(p.asked, 0, i) // the same one may be named again
}

func (ps *Peers) vouchFor(to transport.Address, seq uint64) {
	if _, ok := ps.Gossip.Member(to); ok {
		p := ps.Peer(to)
		p.answered = answeredBeat{ps.Now, max(p.answered.seq, seq)}
	}
}

// Vouched records that node has vouched for this node by a loose message. A loose message does not
// answer a heartbeat. Members send no loose messages to nodes that they know as Down or removed.
//
// The message may have waited long for a paused process, so Vouched records the sending time of the
// last returned echo. The message certainly left the broker after that echo had arrived at the
// broker, because both came over one connection, which keeps their order.
func (ps *Peers) Vouched(node transport.Address) {
	if _, ok := ps.Gossip.Member(node); ok && ps.Echo.Good {
		p := ps.Peer(node)
		p.Vouched = core.Later(p.Vouched, ps.Echo.Sent)
	}
}

// KeptCompany records, like Vouched, that a member does not know this node as Down or removed. The
// member's message need not prolong a lease.
func (ps *Peers) KeptCompany(node transport.Address) {
	if _, ok := ps.Gossip.Member(node); ok && ps.Echo.Good {
		p := ps.Peer(node)
		p.Company = core.Later(p.Company, ps.Echo.Sent)
	}
}

// VouchedAt returns the latest time at which a node certainly vouched for this one; zero means
// never.
func (ps *Peers) VouchedAt(node transport.Address) time.Time {
	if node == ps.Config.Self {
		return ps.Now
	}
	if p := ps.Known[node]; p != nil {
		return p.Vouched
	}
	return time.Time{}
}

// ReturnGrace is how long members have to reconnect to a restarted broker. A member counts as gone
// only if it is not heard within this time.
const ReturnGrace = 4 * time.Second

// DropEvidence forgets what this node's connection has shown about other members, and to which
// servers they are connected. They may have moved to other servers while this node heard nothing.
// opened reports whether the connection is new.
//
// If the broker has only one server, the members cannot have moved, so their server is kept. If it
// were forgotten, a member that died while the server stood still or restarted could never be found
// gone, because a dead member does not name its server again. Members at a restarted server get
// ReturnGrace to come back.
func (ps *Peers) DropEvidence(opened bool) {
	ps.Cleared = ps.Now
	was, stay := ps.mark, !opened || ps.alone && ps.Conn.Alone
	if opened {
		ps.mark, ps.alone = ps.Mark, ps.Conn.Alone
	}
	stay = stay && ps.alone
	//arch:order-free each peer is treated alike
	for _, p := range ps.Known {
		p.listens()
		p.phi.last = ps.Now
		if !stay || p.server != was || p.via != was {
			p.server, p.via = 0, 0
			continue
		}
		if opened {
			p.server, p.via, p.carried = ps.mark, ps.mark, ps.Now
		}
		if ps.mark != was {
			p.returns = ps.Now.Add(ReturnGrace)
		}
	}
}

// A Peer is what this node has observed of one other member through its own connection.
type Peer struct {
	Vouched  time.Time // the time from which its last vouching counts for this node's lease
	Company  time.Time // the latest time at which it certainly counted on this node
	answered answeredBeat
	asked    []sentBeat // the heartbeats that it may still answer, the oldest first
	acked    time.Time  // when it last answered a heartbeat
	heard    time.Time  // when anything last came from it
	// beaten is set while this node sends the peer heartbeats, and phi judges the answers.
	beaten bool
	phi    phiDetector
	Beat   time.Time // when the next heartbeat is due
	// server is the broker instance named in the peer's last heartbeat or answer, and via this
	// node's own instance, through which the message came.
	server, via message.ServerMark
	carried     time.Time // when server and via were kept from an earlier connection; zero means they were not
	returns     time.Time // from when its absence from a restarted server counts
	// Absent is when the broker first reported no subscription of the peer, absentLast is when it
	// last did, and absentCount the number of such reports. A sign of life resets them.
	Absent, absentLast time.Time
	absentCount        int
	elsewhere          Elsewhere
	marked             time.Time // when this node last made a record against it
}

// listens forgets that the broker knew no subscription of the peer.
func (p *Peer) listens() {
	p.Absent, p.absentLast, p.absentCount, p.elsewhere = time.Time{}, time.Time{}, 0, Elsewhere{}
}

func (p *Peer) ask(seq uint64, now time.Time) {
	if len(p.asked) == maxSentBeats {
		p.asked = slices.Delete(p.asked, 0, 1)
	}
	p.asked = append(p.asked, sentBeat{seq, now})
}

type answeredBeat struct {
	at  time.Time // when it was answered; zero means never
	seq uint64    // the highest number of an answered heartbeat
}

type sentBeat struct {
	seq  uint64
	sent time.Time
}

// maxSentBeats bounds the unanswered heartbeats kept for a member. A node sends fewer within
// QuorumTimeout.
const maxSentBeats = 64
