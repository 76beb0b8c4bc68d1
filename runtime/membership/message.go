package membership

import (
	"time"

	"github.com/shardgen/shardgen/internal/membership/gossip"

	"github.com/shardgen/shardgen/transport"
)

// A Message travels between nodes on the control channel, which may lose,
// repeat and reorder. [Encode] and [Decode] turn it into bytes and back. The
// machine's driver puts cluster and sender beside it.
//
// Target is always the low half of the receiver's incarnation: a message for an
// earlier one is not for this one. 0 is everybody.
type Message interface {
	message()
	String() string
}

// Hello is broadcast by a node that wants to join, every 100 ms (less often if
// many do) until it is answered: by members with [HelloAck], by other joiners with their own Hello.
type Hello struct {
	// Attempt counts the node's hellos from 1. In a large cluster only a few
	// members answer the first ones.
	Attempt uint32
	// Seeds are the names that answer at once, if there are any.
	Seeds []string
	// Interval is when the next one follows, unless the node has been answered.
	Interval time.Duration
}

// HelloAck is a member's offer to join through it.
type HelloAck struct {
	Target uint32 // the joiner
}

// Join asks the member that answered first for admission.
type Join struct {
	Target uint32            // the member that is asked
	Roles  []string          // of the joiner
	Meta   []gossip.KeyValue // what it tells about itself; see Member.Meta
	Compat []gossip.KeyValue // what must match at all members; see Config.Compat
}

// Welcome admits the joiner, with the state that it starts from.
type Welcome struct {
	Target uint32        // the joiner
	State  *gossip.State // with the joiner in it
}

// JoinRefused says why a joiner is not admitted. Final means that asking again
// is of no use; otherwise the joiner asks again until its JoinTimeout.
type JoinRefused struct {
	Target uint32 // the joiner
	Final  bool   // asking again is of no use
	Reason string // for people
}

// GossipMessage is the whole state of one member. The leader of a large cluster
// broadcasts it, and that also welcomes those that it has admitted.
type GossipMessage struct {
	Target uint32        // the receiver
	State  *gossip.State // the sender's, whole
}

// GossipStatus is a member's version and who has seen it, in place of the whole
// state. The leader of a large cluster broadcasts it when all have.
type GossipStatus struct {
	Target  uint32         // the receiver
	Version gossip.Digest  // of the founder and the clock
	Changes uint64         // the sum of the clock's counts
	All     bool           // all members have seen the version; Seen is nil then
	Members int            // how many there are, unless all have seen it
	Seen    gossip.SeenSet // who has seen the version, by the order of members
}

// Heartbeat asks a watched member for a sign of life; [HeartbeatAck] is it.
type Heartbeat struct {
	Target uint32     // the watched member
	Seq    uint64     // of the sender's heartbeats to it, for the answer
	Server ServerMark // behind the sender's connection
	// Heard is the highest Seq of the receiver's own heartbeats that came to the
	// sender; 0: none did.
	Heard uint64
	// Bound: the receiver's lease counts from when it sent the heartbeat that Heard
	// names. Otherwise from when this one came.
	Bound bool
}

// HeartbeatAck answers [Heartbeat].
type HeartbeatAck struct {
	Target uint32     // who asked
	Seq    uint64     // of the heartbeat
	Server ServerMark // behind the answerer's connection
}

// Alive is broadcast by the members of a small cluster, so that each hears from a
// majority however few it watches, and by the leader of any, so that two clusters
// of one name meet.
type Alive struct {
	Founder transport.Address // names the cluster: who formed it
	Size    uint32            // its Up members
	// Barred is a fingerprint of whom the sender holds Down or removed, in this
	// cluster. Who has the same is none of them: the sender counts on it.
	Barred uint64
	Server ServerMark // behind the sender's connection
	// Bound: no lease follows from this. The sender's heartbeats and its answers to
	// those of others are for that.
	Bound bool
}

// Vote goes from each member of a large cluster to its collectors, in place of
// the broadcasts of [Alive], which would be too many. See votes.go.
type Vote struct {
	Target uint32     // the collector
	Seq    uint64     // of the voter's votes, for the answer
	Barred uint64     // as in Alive
	Voters uint32     // how many have a vote in the eyes of the sender
	Server ServerMark // behind the voter's connection
}

// VoteAck answers [Vote]: how long ago others counted on the voter, as the
// collector knows it.
type VoteAck struct {
	Target uint32 // the voter
	Seq    uint64 // of the vote
	// Majority is the age of the vote that makes a quorum, of those that counted on
	// the voter; All is that of the oldest by anyone that can be reached, and Every by
	// anyone that is not Down; Heard is that of the vote that makes half of all,
	// whomever they counted on. 0 is never, so ages are at least 1 ms.
	Majority, All, Every, Heard time.Duration
}

// A ServerMark is a fingerprint of a broker instance; 0 means that none is known.
type ServerMark uint32

// Echo is what a member sends to itself through the broker. Its return proves
// that the way there and back is open.
type Echo struct {
	Seq uint64 // of this node's echoes
}

// Removal tells a process that it is no member any more, so that it stops: it is
// the answer to whatever a Down or removed node sends.
type Removal struct {
	Target uint32 // who is no member
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
func (Vote) message()          {}
func (VoteAck) message()       {}

// mark32 is a node's Target.
func mark32(node transport.Address) uint32 { return uint32(node.Incarnation) }
