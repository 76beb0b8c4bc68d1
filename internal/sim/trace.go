package sim

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/runtime/membership"
	"github.com/shardgen/shardgen/transport"
)

type trace struct {
	sum  uint64
	tell func(string)
}

func newTrace(tell func(string)) trace { return trace{sum: 0xcbf29ce484222325, tell: tell} }

// mix adds a word to the hash, as in xxHash.
func (t *trace) mix(x uint64) {
	x *= 0x9e3779b97f4a7c15
	x ^= x >> 32
	t.sum = (t.sum ^ x) * 0xff51afd7ed558ccd
	t.sum ^= t.sum >> 29
}

func (t *trace) text(s string) {
	h := uint64(len(s))
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	t.mix(h)
}

func (t *trace) line(now time.Duration, format string, args ...any) {
	t.mix(uint64(now))
	t.text(format)
	for _, a := range args {
		switch a := a.(type) {
		case transport.Address:
			t.mix(a.Incarnation)
		case string:
			t.text(a)
		case int:
			t.mix(uint64(a))
		default:
			t.text(fmt.Sprint(a))
		}
	}
	if t.tell != nil {
		t.tell(fmt.Sprintf("%10.6fs -- ", now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

func (t *trace) event(now time.Duration, n *Node, e membership.Event) {
	kind, node := eventWords(e)
	t.mix(kind)
	t.mix(node)
	if t.tell != nil {
		t.tell(fmt.Sprintf("%10.6fs %s == %v", now.Seconds(), n.Address.Name, e))
	}
}

// eventWords returns the numbers hashed for an event. Formatting millions of events would take
// longer than the run.
func eventWords(e membership.Event) (kind, node uint64) {
	switch e := e.(type) {
	case membership.MemberJoined:
		return 1, e.Member.Incarnation
	case membership.MemberWeaklyUp:
		return 2, e.Member.Incarnation
	case membership.MemberUp:
		return 3, e.Member.Incarnation ^ uint64(e.Member.UpNumber)<<40
	case membership.MemberLeaving:
		return 4, e.Member.Incarnation
	case membership.MemberExiting:
		return 5, e.Member.Incarnation
	case membership.MemberDowned:
		return 6, e.Member.Incarnation
	case membership.MemberRemoved:
		return 7, e.Member.Incarnation ^ uint64(e.Member.Status)<<56
	case membership.UnreachableMember:
		return 8, e.Member.Incarnation ^ uint64(e.Evidence)<<56
	case membership.ReachableMember:
		return 9, e.Member.Incarnation
	case membership.LeaderChanged:
		return 10, e.Leader.Incarnation
	case membership.ConvergedChanged:
		return 11, uint64(len(e.Reason))
	}
	return 12, uint64(len(e.String()))
}

func (t *trace) step(now time.Duration, n *Node, in membership.Input) {
	t.mix(uint64(now))
	t.mix(uint64(n.ID))
	switch in := in.(type) {
	case membership.Tick:
		t.mix(1)
		return
	case membership.Receive:
		t.mix(2 ^ in.From.Incarnation)
		t.message(in.Message)
		if t.tell != nil {
			t.tell(fmt.Sprintf("%10.6fs %s <- %s: %v", now.Seconds(), n.Address.Name, in.From.Name, in.Message))
		}
		return
	case membership.Unreachable:
		t.mix(3 ^ in.Peer.Incarnation)
	case membership.Asked:
		t.mix(5 ^ in.Peer.Incarnation)
		t.text(fmt.Sprint(in.Listens))
	case membership.ConnState:
		t.mix(4)
		t.text(in.Server)
	default:
		t.text("membership." + kindOf(in)) // the same wherever the type is declared
	}
	if t.tell != nil {
		t.tell(fmt.Sprintf("%10.6fs %s <- %s %+v", now.Seconds(), n.Address.Name, kindOf(in), in))
	}
}

func (t *trace) message(m membership.Message) {
	switch m := m.(type) {
	case message.Heartbeat:
		t.mix(11 + m.Seq<<8)
	case message.HeartbeatAck:
		t.mix(12 + m.Seq<<8)
	case message.Echo:
		t.mix(13 + m.Seq<<8)
	case message.Alive:
		t.mix(14 ^ m.Barred)
	case message.Hello:
		t.mix(15 + uint64(m.Attempt)<<8)
	case message.Gossip:
		t.mix(16)
		t.gossip(m.State)
	case message.Welcome:
		t.mix(17)
		t.gossip(m.State)
	case message.Status:
		t.mix(18 + uint64(m.Seen.Count())<<8 ^ m.Version[0])
	case message.Vote:
		t.mix(19 + m.Seq<<8 ^ m.Barred)
	case message.VoteAck:
		t.mix(20 + m.Seq<<8 ^ uint64(m.Majority) ^ uint64(m.All)<<16)
	default:
		t.text("membership." + kindOf(m)) // the same wherever the type is declared
	}
}

func (t *trace) gossip(g *gossip.State) {
	t.mix(uint64(len(g.Members)) | uint64(g.Seen.Count())<<16 | uint64(len(g.Rows))<<32 | uint64(len(g.Tombstones))<<48)
	t.mix(uint64(g.UpCounter) | g.RemovalCounter<<32)
	sum := uint64(0)
	for _, c := range g.Version {
		sum += c.Count
	}
	t.mix(sum)
}

// tracked summarizes a node's published view, to avoid searches.
type tracked struct {
	set       uint64 // a hash of the members that are not Down
	size      int    // the number of these members
	published uint64 // set after the last step with events
	converged bool
}

func (t *tracked) begin(g *gossip.State) {
	for _, m := range g.Members {
		t.toggle(m.Address, 1)
	}
	t.published, t.converged = t.set, true
}

func (t *tracked) toggle(a transport.Address, change int) {
	t.set ^= mark(a)
	t.size += change
}

func mark(a transport.Address) uint64 {
	x := a.Incarnation
	for i := range len(a.Name) {
		x = (x ^ uint64(a.Name[i])) * 0x100000001b3
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (t *tracked) follow(e membership.Event) {
	switch e := e.(type) {
	case membership.MemberJoined:
		t.toggle(e.Member.Address, 1)
	case membership.MemberDowned:
		t.toggle(e.Member.Address, -1)
	case membership.MemberRemoved:
		if e.Member.Status != membership.Down {
			t.toggle(e.Member.Address, -1)
		}
	case membership.ConvergedChanged:
		t.converged = e.Converged
	}
}

func (t *tracked) publish() { t.published = t.set }

// SetOf returns the hash that [Node.Set] has for a view of these nodes.
func SetOf(nodes []*Node) uint64 {
	sum := uint64(0)
	for _, n := range nodes {
		sum ^= mark(n.Address)
	}
	return sum
}

// Agreed reports whether, in the converged view of each of the nodes, these nodes and no others are
// Up.
func Agreed(nodes []*Node) bool {
	want := SetOf(nodes)
	for _, n := range nodes {
		if n.ended || !n.track.converged || n.track.published != want || n.track.size != len(nodes) {
			return false
		}
	}
	for _, n := range nodes {
		v := n.View()
		if !n.IsMember() || len(v.ByAddress) != len(nodes) || v.Founder != nodes[0].View().Founder {
			return false
		}
		for _, m := range v.ByAddress {
			if m.Status != membership.Up {
				return false
			}
		}
	}
	return true
}
