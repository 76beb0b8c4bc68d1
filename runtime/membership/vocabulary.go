package membership

import (
	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
)

// A Message travels between nodes on the control channel, which may lose, repeat and reorder
// messages. [Encode] and [Decode] convert messages to bytes and back.
type Message = message.Message

// ErrUnknown is returned by [Decode] for a message with a kind, or a value, that only a later
// release knows. The receiver skips the message.
var ErrUnknown = message.ErrUnknown

// Encode returns the bytes of a message.
func Encode(m Message) ([]byte, error) { return message.Encode(m) }

// Decode decodes the result of Encode. The bytes may come from any process: a decoded message is
// well formed, but its content may be untrue.
func Decode(b []byte) (Message, error) { return message.Decode(b) }

// A Member is one node in the gossiped state: its Address, Status, Roles, age (UpNumber) and Meta.
// For a Down member it also says how the member was downed and whether it is Fenced.
type Member = gossip.Member

// A MemberView is a [Member] with two more facts: Reachable, and the Evidence that makes it
// unreachable.
type MemberView = gossip.MemberView

// A KeyValue is one entry of a member's Meta or Compat list.
type KeyValue = gossip.KeyValue

// A Status is a stage in the life of a member. A later stage has a higher value.
type Status = gossip.Status

// The statuses of a member. A member is Joining, then Up, Leaving and Exiting, and finally Removed.
// If the view does not converge for some time, a Joining member becomes WeaklyUp before it becomes
// Up. A member may become Down at any time before it is removed.
const (
	NoStatus = gossip.NoStatus // not a member, or not yet
	Joining  = gossip.Joining  // admitted; waits for the leader
	WeaklyUp = gossip.WeaklyUp // serves although the view has not converged
	Up       = gossip.Up       // a full member
	Leaving  = gossip.Leaving  // hands off its shards and singletons
	Exiting  = gossip.Exiting  // has handed off everything; is removed next
	Down     = gossip.Down     // given up by the others, or told to stop; is removed next
	Removed  = gossip.Removed  // no longer a member; this incarnation cannot become one again
)

// Evidence is the reason why an observer cannot reach a member. Stronger evidence has a higher
// value.
type Evidence = gossip.Evidence

// The kinds of evidence.
const (
	NoEvidence     = gossip.NoEvidence     // the member is reachable
	EvidenceSilent = gossip.EvidenceSilent // it does not answer, and the broker does not report why
	EvidenceCut    = gossip.EvidenceCut    // the observer's server, which is not the member's last one, knows no subscription of the member
	EvidenceLost   = gossip.EvidenceLost   // the member's own server has told the observer that it lost the member's connection
	EvidenceGone   = gossip.EvidenceGone   // the observer and the member have the same server, which lost the member's connection
)

// A Detection sets how many observers must miss a member until it counts as unreachable.
type Detection = gossip.Detection

// The values of Detection.
const (
	DetectionManyEdges      = gossip.DetectionManyEdges      // most of its observers miss the member
	DetectionSingleObserver = gossip.DetectionSingleObserver // one observer misses it, as in the Akka Cluster specification
)

// A Downing names the strategy that chooses the unreachable members to down.
type Downing = splitbrain.Downing

// The strategies. DowningBroker asks the broker which members are gone. The strategies after
// DowningManual follow Akka's split brain resolver and its earlier auto-down, and use reachability
// alone.
const (
	// DowningBroker downs a member that is gone at once, and other unreachable members by
	// keep-majority.
	DowningBroker = splitbrain.DowningBroker
	// DowningManual leaves downing to an operator.
	DowningManual = splitbrain.DowningManual
	// DowningAuto lets the leader down every member that has been unreachable for AutoDownAfter. It
	// is not safe: in a partition every side goes on as a cluster of its own.
	DowningAuto = splitbrain.DowningAuto
	// DowningStaticQuorum lets the side with at least QuorumSize members go on.
	DowningStaticQuorum = splitbrain.DowningStaticQuorum
	// DowningKeepMajority lets the side with more than half of the members go on. Of two equal
	// halves, the half with the oldest member goes on.
	DowningKeepMajority = splitbrain.DowningKeepMajority
	// DowningKeepOldest lets the side with the oldest member go on, however small. But if the
	// oldest is alone and KeepOldestAlone is not set, the other side goes on.
	DowningKeepOldest = splitbrain.DowningKeepOldest
	// DowningAll makes all members stop if any member is unreachable.
	DowningAll = splitbrain.DowningAll
	// DowningLeaseMajority lets the side that takes a lease in a common store go on. The driver
	// must carry out [Output.TakeLease].
	DowningLeaseMajority = splitbrain.DowningLeaseMajority
)

// Config holds a machine's settings. Zero values mean the defaults; negative values are refused.
// Self must be set.
type Config = core.Config

// A RoleMinimum is the number of members with a role that must have joined before joining members
// become Up.
type RoleMinimum = core.RoleMinimum

// A View is the cluster as one node sees it at one moment: its members by age and by address, the
// leader, and whether the view has converged. A View never changes.
type View = core.View

// Output has the driver's work after a step: send messages, publish events, obey the lease, and
// call Step again at WakeAt.
type Output = core.Output

// An Envelope is a message to one node, or to all nodes of the cluster.
type Envelope = core.Envelope

// A LeaseRequest asks the driver to take the lease that decides a network partition, and to answer
// with [LeaseAnswer].
type LeaseRequest = core.LeaseRequest

// A Founding is the store's record of the node that founded the cluster.
type Founding = core.Founding

// A FoundingRequest asks the driver to read or write the Founding record, and to answer with
// [FoundingAnswer].
type FoundingRequest = core.FoundingRequest

// A Question asks another server of the broker whether anybody listens for a member there.
type Question = core.Question

// A Table holds the settings of membership by a table.
type Table = core.Table

// Requests to the membership table, and their answers.
type (
	TableRead    = core.TableRead    // reads all rows and the version
	TableWrite   = core.TableWrite   // writes one row and the next version
	TableAlive   = core.TableAlive   // writes that this member is alive
	TableRows    = core.TableRows    // answers a TableRead
	TableWritten = core.TableWritten // answers a TableWrite or a TableAlive
)

// A Refusal is the reason why a received message was not accepted.
type Refusal = core.Refusal

// The reasons that drivers distinguish. NotRefused means that the message was accepted.
const (
	NotRefused       = core.NotRefused
	RefusedMalformed = core.RefusedMalformed
)

// Refusals returns all reasons but NotRefused, in the order of their values.
func Refusals() []Refusal { return core.Refusals() }

// An Input is something that happened to a node.
type Input = core.Input

// The kinds of [Input].
type (
	Start          = core.Start          // begins joining
	Tick           = core.Tick           // time has passed
	Receive        = core.Receive        // a message arrived
	Unreachable    = core.Unreachable    // the broker knows no subscription of a node
	Suspected      = core.Suspected      // another connection reports a missing subscription
	Asked          = core.Asked          // the answer to a Question
	Vacant         = core.Vacant         // no member of a formed cluster listens
	Claimed        = core.Claimed        // the broker directs probes here
	FoundingAnswer = core.FoundingAnswer // the answer to a FoundingRequest
	ConnState      = core.ConnState      // the connection to the broker changed
	MessageLimit   = core.MessageLimit   // the broker's limit for messages changed
	Paused         = core.Paused         // the driver's loop stood still
	Leave          = core.Leave          // the user asks to leave in order
	ExitReady      = core.ExitReady      // nothing is left to hand off
	DownNode       = core.DownNode       // an operator downs a member
	Undeliverable  = core.Undeliverable  // a message that had to arrive could not be delivered
	LeaseAnswer    = core.LeaseAnswer    // the answer to a LeaseRequest
)

// An Event is a change of the view. Events come in the order in which this node saw the changes. A
// new subscriber starts with the current [View].
type Event = core.Event

// Events about members.
type (
	MemberJoined      = core.MemberJoined      // a node was admitted
	MemberWeaklyUp    = core.MemberWeaklyUp    // a joining member serves before convergence
	MemberUp          = core.MemberUp          // a member is Up
	MemberLeaving     = core.MemberLeaving     // a member leaves
	MemberExiting     = core.MemberExiting     // a member has handed off everything
	MemberDowned      = core.MemberDowned      // a member was downed, or told to stop
	MemberRemoved     = core.MemberRemoved     // a node is no longer a member
	MemberQuarantined = core.MemberQuarantined // a member missed messages and must stop
	UnreachableMember = core.UnreachableMember // a member cannot be reached
	ReachableMember   = core.ReachableMember   // a member can be reached again
)

// Events about the cluster and this node. The last three end the machine.
type (
	LeaderChanged    = core.LeaderChanged
	ConvergedChanged = core.ConvergedChanged
	Formed           = core.Formed           // this node has formed the cluster
	FoundedElsewhere = core.FoundedElsewhere // the store has another cluster of this name
	OtherTable       = core.OtherTable       // another cluster of this name uses another table
	JoinerTooLarge   = core.JoinerTooLarge   // the state has no room for a joiner
	StateTooLarge    = core.StateTooLarge    // the state no longer fits a message
	JoinFailed       = core.JoinFailed       // this node could not join
	SelfDowned       = core.SelfDowned       // this node was downed and has to stop
	SelfRemoved      = core.SelfRemoved      // this node has left in order
)
