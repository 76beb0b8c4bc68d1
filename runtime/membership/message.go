package membership

import "github.com/shardgen/shardgen/transport"

// A Message travels between nodes on the control channel, which may lose,
// repeat and reorder. [Encode] and [Decode] turn it into bytes and back. The
// machine's driver puts cluster and sender beside it.
type Message interface {
	message()
	String() string
}

// Hello is broadcast by a node that wants to join, every 100 ms until it is
// answered: by members with [HelloAck], by other joiners with their own Hello.
type Hello struct {
	// Attempt counts the node's hellos from 1. In a large cluster only a few
	// members answer the first ones.
	Attempt uint32
	// Seeds are the names that answer at once, if there are any.
	Seeds []string
}

// HelloAck is a member's offer to join through it.
type HelloAck struct {
	Target transport.Address
}

// Join asks the member that answered first for admission.
type Join struct {
	Target transport.Address
	Roles  []string
	Meta   []KeyValue
	Compat []KeyValue
}

// Welcome admits the joiner, with the state that it starts from.
type Welcome struct {
	Target transport.Address
	State  *Gossip
}

// JoinRefused says why a joiner is not admitted. Final means that asking again
// is of no use; otherwise the joiner asks again until its JoinTimeout.
type JoinRefused struct {
	Target transport.Address
	Final  bool
	Reason string
}

// GossipMessage is the whole state of one member.
type GossipMessage struct {
	Target transport.Address
	State  *Gossip
}

// GossipStatus is a member's version and who has seen it, in place of the whole state.
type GossipStatus struct {
	Target  transport.Address
	Founder transport.Address
	Version VectorClock
	Seen    []transport.Address
}

// Heartbeat asks a watched member for a sign of life; [HeartbeatAck] is it.
type Heartbeat struct {
	Target transport.Address
	Seq    uint64
	Server string // the broker instance behind the sender's connection
}

// HeartbeatAck answers [Heartbeat].
type HeartbeatAck struct {
	Target transport.Address
	Seq    uint64
	Server string
}

// Alive is broadcast by members, so that each hears from a majority however few
// it watches, and so that two clusters of one name meet.
type Alive struct {
	Founder transport.Address // names the cluster: who formed it
	Size    uint32            // its Up members
	// Members is a fingerprint of the sender's members that are not Down. Who has
	// the same is one of them: the sender counts on it.
	Members uint64
	Server  string
}

// Echo is what a member sends to itself through the broker. Its return proves
// that the way there and back is open.
type Echo struct {
	Seq uint64
}

// Removal tells a process that it is no member any more, so that it stops: it is
// the answer to whatever a Down or removed node sends.
type Removal struct {
	Target transport.Address
	// Left: it was removed after leaving in order. Otherwise it was downed.
	Left bool
}

func (Hello) message()         {}
func (HelloAck) message()      {}
func (Join) message()          {}
func (Welcome) message()       {}
func (JoinRefused) message()   {}
func (GossipMessage) message() {}
func (GossipStatus) message()  {}
func (Heartbeat) message()     {}
func (HeartbeatAck) message()  {}
func (Alive) message()         {}
func (Echo) message()          {}
func (Removal) message()       {}

// KeyValue is one entry of a member's Meta or Compat lists, which are sorted by
// key and hold each key once.
type KeyValue struct {
	Key, Value string
}
