package sim

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/runtime/membership"
)

// Traffic counts the messages that a node has sent and received. Bytes are bytes of payload: a
// message in the driver's envelope, without the broker's protocol and subjects.
type Traffic struct {
	Sent, Received Flow
	Echo           Flow // the node's own echoes, sent and returned; the other counts leave them out
	// Kinds splits Sent and Received by the kind of message.
	Kinds map[string]Flow
}

// A Flow is a number of messages and their bytes.
type Flow struct{ Messages, Bytes uint64 }

func (f *Flow) add(size int32) {
	f.Messages++
	f.Bytes += uint64(size)
}

func (t *Traffic) count(m membership.Message, size int32, sent bool) {
	switch _, echo := m.(message.Echo); {
	case echo:
		t.Echo.add(size)
		return
	case sent:
		t.Sent.add(size)
	default:
		t.Received.add(size)
	}
	if t.Kinds == nil {
		t.Kinds = make(map[string]Flow)
	}
	kind := kindOf(m)
	f := t.Kinds[kind]
	f.add(size)
	t.Kinds[kind] = f
}

func kindOf(v any) string {
	name := fmt.Sprintf("%T", v)
	return name[strings.LastIndexByte(name, '.')+1:]
}

// sizes measures messages by encoding them. A large state is measured once for each version and for
// each approximate number of members that have seen it. The error is below 1%.
type sizes struct {
	cluster string
	states  map[stateKey]int32
	last    *gossip.State
	lastIs  int32
}

type stateKey struct {
	version      uint64
	members      int
	seen, extras int
}

const exactStates = 100

const maxStates = 1 << 16

func newSizes(cluster string) sizes {
	return sizes{cluster: cluster, states: make(map[stateKey]int32)}
}

func (s *sizes) of(n *Node, m membership.Message) int32 {
	body := s.body(m)
	// The fields of wire.Control: format, cluster, from, incarnation, topic, body.
	return 2 + 2 + int32(len(s.cluster)) + 2 + int32(len(n.Address.Name)) + 9 + 2 + 1 + varint(body) + body
}

func varint(n int32) int32 { return int32(bits.Len32(uint32(n)|1)+6) / 7 }

func (s *sizes) body(m membership.Message) int32 {
	switch m := m.(type) {
	case message.Gossip:
		return s.state(m.State, m)
	case message.Welcome:
		return s.state(m.State, m)
	}
	return encoded(m)
}

func encoded(m membership.Message) int32 {
	b, err := membership.Encode(m)
	if err != nil {
		return 0 // the driver does not send such a message either
	}
	return int32(len(b))
}

func (s *sizes) state(g *gossip.State, m membership.Message) int32 {
	if g == s.last {
		return s.lastIs
	}
	s.last = g
	if len(g.Members) <= exactStates {
		s.lastIs = encoded(m)
		return s.lastIs
	}
	key := stateKey{members: len(g.Members), seen: 32 * g.Seen.Count() / len(g.Members), extras: len(g.Rows) + len(g.Tombstones)<<16}
	for _, c := range g.Version {
		key.version = key.version*0x9e3779b97f4a7c15 + c.Count ^ c.Node.Incarnation
	}
	size, ok := s.states[key]
	if !ok {
		if len(s.states) >= maxStates {
			clear(s.states)
		}
		size = encoded(m)
		s.states[key] = size
	}
	s.lastIs = size
	return size
}
