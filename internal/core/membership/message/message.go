package message

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/transport"
)

// A Message travels between nodes on the control channel, which may lose, repeat and reorder
// messages. [Encode] and [Decode] turn it into bytes and back. The driver of a node's membership
// adds the names of the cluster and of the sender.
//
// The Target of a message is [TargetOf] the receiver's address. So a node recognizes a message for
// an earlier incarnation of itself. Target 0 means all nodes.
type Message interface {
	message()
	String() string
}

// Hello is broadcast by a node that wants to join, every 100 ms (less often if many nodes join at
// once), until the node gets an answer. Members answer with [HelloAck]. Other joiners record the
// sender.
type Hello struct {
	// Attempt counts the node's hellos from 1. In a large cluster only a few
	// members answer the first ones.
	Attempt uint32
	// Seeds are the names of the nodes that should answer at once; may be empty.
	Seeds []string
	// Interval is the time until the next hello, unless the node is answered before.
	Interval time.Duration
	// Claim means that the node is about to form the cluster. Every member answers, and
	// other joiners form none.
	Claim bool
}

func (Hello) message() {}

// String is for transcripts and logs.
func (m Hello) String() string {
	text := fmt.Sprintf("hello %d", m.Attempt)
	if len(m.Seeds) > 0 {
		text += " to " + strings.Join(m.Seeds, ",")
	}
	if m.Claim {
		text += ", claims"
	}
	return text
}

// HelloAck is a member's offer to join through it.
type HelloAck struct {
	Target  uint32            // the joiner
	Founder transport.Address // the node that wrote the first row of the sender's table; zero with gossip
}

func (HelloAck) message() {}

// String is for transcripts and logs.
func (m HelloAck) String() string { return "hello-ack" }

// Join asks for admission. It goes to the member that answered the joiner's hello first. With a
// table it asks a member to write a row for the joiner or, if Proved is set, to make the joiner
// active.
type Join struct {
	Target uint32            // the member that is asked
	Roles  []string          // of the joiner
	Meta   []gossip.KeyValue // its description of itself; see Member.Meta
	Compat []gossip.KeyValue // the values that must be equal at all members; see Config.Compat
	// Version is the table's version at which the joiner checked its settings; 0 asks for no write.
	// Server is the joiner's broker instance.
	Version uint64
	Server  string
	Proved  bool // all members that the joiner must probe have answered
}

func (Join) message() {}

// String is for transcripts and logs.
func (m Join) String() string { return "join" }

// Welcome admits the joiner. It has the state with which the joiner starts.
type Welcome struct {
	Target uint32        // the joiner
	State  *gossip.State // with the joiner in it
}

func (Welcome) message() {}

// String is for transcripts and logs.
func (m Welcome) String() string { return "welcome: " + m.State.String() }

// JoinRefused is the answer to a joiner that is not admitted. If Final is not set, the joiner asks
// again until its JoinTimeout has passed.
type JoinRefused struct {
	Target uint32 // the joiner
	Final  bool   // asking again cannot succeed
	Reason string // for people
}

func (JoinRefused) message() {}

// String is for transcripts and logs.
func (m JoinRefused) String() string {
	if m.Final {
		return "join refused for good: " + m.Reason
	}
	return "join refused: " + m.Reason
}

// Gossip carries the whole state of one member. The leader of a large cluster broadcasts it, which
// also welcomes newly admitted members.
type Gossip struct {
	Target uint32        // the receiver
	State  *gossip.State // the sender's, whole
}

func (Gossip) message() {}

// String is for transcripts and logs.
func (m Gossip) String() string { return "gossip: " + m.State.String() }

// Status carries a member's version of the state and the members that have seen it, without the
// state. The leader of a large cluster broadcasts it when all members have seen the version.
type Status struct {
	Target  uint32         // the receiver
	Version gossip.Digest  // the fingerprint of the founder and the clock
	Changes uint64         // the sum of the clock's counts
	All     bool           // all members have seen the version; Seen is nil then
	Members int            // the number of members; 0 if All is set
	Seen    gossip.SeenSet // the members that have seen the version, in their order
}

func (Status) message() {}

// String is for transcripts and logs.
func (m Status) String() string {
	if m.All {
		return fmt.Sprintf("status: version %x seen by all", m.Version[0])
	}
	return fmt.Sprintf("status: version %x seen by %d of %d", m.Version[0], m.Seen.Count(), m.Members)
}

// Heartbeat asks a watched member for a sign of life. The member answers with [HeartbeatAck].
type Heartbeat struct {
	Target uint32     // the watched member
	Seq    uint64     // the number of the heartbeat, for the answer
	Server ServerMark // the broker instance of the sender
	// Heard is the highest Seq of the receiver's own heartbeats that the sender has
	// received; 0 means none.
	Heard uint64
	// Bound makes the receiver's lease count from the time at which it sent heartbeat
	// Heard. Otherwise it counts from the receipt of this message.
	Bound bool
}

func (Heartbeat) message() {}

// String is for transcripts and logs.
func (m Heartbeat) String() string { return fmt.Sprintf("heartbeat %d", m.Seq) }

// HeartbeatAck answers [Heartbeat].
type HeartbeatAck struct {
	Target uint32     // the member that sent the heartbeat
	Seq    uint64     // of the heartbeat
	Server ServerMark // the broker instance of the answerer
}

func (HeartbeatAck) message() {}

// String is for transcripts and logs.
func (m HeartbeatAck) String() string { return fmt.Sprintf("heartbeat-ack %d", m.Seq) }

// Alive is broadcast by every member of a small cluster. So each member hears from a majority, even
// if it watches only a few members. In a large cluster, only the leader broadcasts Alive. By this
// message, two clusters of the same name detect each other.
type Alive struct {
	Founder transport.Address // the founder of the cluster, which identifies it
	Size    uint32            // the number of its Up and Leaving members
	// Barred is a fingerprint of the Down and removed nodes of this cluster, as the sender knows
	// them. A receiver that computes the same fingerprint is none of them: the sender vouches for
	// it.
	Barred uint64
	Server ServerMark // the broker instance of the sender
	// Bound means that a lease follows only from heartbeats and their answers, and not from this
	// message.
	Bound bool
}

func (Alive) message() {}

// String is for transcripts and logs.
func (m Alive) String() string { return fmt.Sprintf("alive size=%d", m.Size) }

// Vote goes from each member of a large cluster to its collectors, in place of
// the broadcasts of [Alive], which would be too many. See package lease.
type Vote struct {
	Target uint32     // the collector
	Seq    uint64     // the number of the vote, for the answer
	Barred uint64     // as in Alive
	Voters uint32     // the number of voters that the sender knows
	Server ServerMark // the broker instance of the voter
}

func (Vote) message() {}

// String is for transcripts and logs.
func (m Vote) String() string { return fmt.Sprintf("vote %d", m.Seq) }

// VoteAck answers [Vote]. It says how long ago other members vouched for the voter, as far as the
// collector knows.
type VoteAck struct {
	Target uint32 // the voter
	Seq    uint64 // of the vote
	// Majority is the age of the vote that completes a quorum, among the votes for the voter. All
	// is the age of the oldest of these votes by reachable members, and Every by members that are
	// not Down. Heard is the age of the vote that completes half of all votes, for the voter or
	// not. 0 means never, so ages are at least 1 ms.
	Majority, All, Every, Heard time.Duration
}

func (VoteAck) message() {}

// String is for transcripts and logs.
func (m VoteAck) String() string {
	return fmt.Sprintf("vote-ack %d: majority %v, all %v ago", m.Seq, m.Majority, m.All)
}

// A ServerMark is a fingerprint of a broker instance; 0 means that none is known.
type ServerMark uint32

// Echo is a message from a member to itself. Its return proves that the connection to the broker
// works in both directions.
type Echo struct {
	Seq uint64 // the number of the echo
}

func (Echo) message() {}

// String is for transcripts and logs.
func (m Echo) String() string { return fmt.Sprintf("echo %d", m.Seq) }

// Removal tells a Down or removed node that it is no member and must stop, in answer to its messages
// or unasked.
type Removal struct {
	Target uint32 // the node that is no member
	// Left is set if the node left in order before it was removed. Otherwise it was downed.
	Left bool
}

func (Removal) message() {}

// String is for transcripts and logs.
func (m Removal) String() string { return "removal" }

// TargetOf returns the Target of messages to a node: the low half of its incarnation.
func TargetOf(node transport.Address) uint32 { return uint32(node.Incarnation) }

// MarkOf returns the fingerprint of a broker instance.
func MarkOf(server string) ServerMark {
	if server == "" {
		return 0
	}
	return ServerMark(gossip.RingPlace(transport.Address{Name: server})>>32 | 1)
}
