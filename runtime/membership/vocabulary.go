package membership

import (
	"github.com/shardgen/shardgen/internal/core/membership/core"
	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
)

// A Message travels between nodes on the control channel, which may lose, repeat and
// reorder messages. [Encode] and [Decode] turn it into bytes and back.
type Message = message.Message

// ErrUnknown is the error of [Decode] for a message of a kind, or with a value, that
// only a later release knows. It is skipped.
var ErrUnknown = message.ErrUnknown

// Encode returns the bytes of a message.
func Encode(m Message) ([]byte, error) { return message.Encode(m) }

// Decode reads the bytes that Encode wrote. They may come from any process: a decoded
// message is well formed, but its content need not be true.
func Decode(b []byte) (Message, error) { return message.Decode(b) }

// A Member is one node as the gossiped state describes it: its Address, Status, Roles,
// age (UpNumber) and Meta, and for a Down member how it came to be downed and whether it
// is Fenced.
type Member = gossip.Member

// A MemberView is a [Member], whether it is Reachable, and the Evidence against it.
type MemberView = gossip.MemberView

// A KeyValue is one entry of a member's Meta or Compat list.
type KeyValue = gossip.KeyValue

// A Status is a stage in the life of a member. A later stage has a higher value.
type Status = gossip.Status

// The statuses. A member joins, is Up (WeaklyUp before that, if the view does not
// converge), leaves, exits and is removed. Any but a removed one may become Down.
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

// Evidence is the reason why an observer cannot reach a member. A higher value is
// stronger.
type Evidence = gossip.Evidence

// The kinds of evidence.
const (
	NoEvidence     = gossip.NoEvidence     // the member is reachable
	EvidenceSilent = gossip.EvidenceSilent // it does not answer, and the broker does not report why
	EvidenceCut    = gossip.EvidenceCut    // no subscription, at another server than the observer's
	EvidenceGone   = gossip.EvidenceGone   // the observer's own server has lost it
)

// A Detection is the number of observers that make a member unreachable.
type Detection = gossip.Detection

// The kinds of detection.
const (
	DetectionManyEdges      = gossip.DetectionManyEdges      // more accusing observers than other ones
	DetectionSingleObserver = gossip.DetectionSingleObserver // one observer that accuses, as in the Akka Cluster specification
)

// A Downing names the strategy by which unreachable members are judged.
type Downing = splitbrain.Downing

// The strategies. All but the first two go by reachability alone: they are those of
// Akka's split brain resolver, and do not ask the broker which members are gone.
const (
	// DowningBroker at once downs a member that is gone, and any other
	// unreachable member by keep-majority.
	DowningBroker = splitbrain.DowningBroker
	// DowningManual leaves downing to an operator.
	DowningManual = splitbrain.DowningManual
	// DowningAuto lets the leader down every member that was unreachable for
	// AutoDownAfter. It is not safe: in a partition every side goes on as a cluster of
	// its own.
	DowningAuto = splitbrain.DowningAuto
	// DowningStaticQuorum lets the side with at least QuorumSize members go on.
	DowningStaticQuorum = splitbrain.DowningStaticQuorum
	// DowningKeepMajority lets the side with more than half of the members go on, and of
	// two halves the one with the oldest.
	DowningKeepMajority = splitbrain.DowningKeepMajority
	// DowningKeepOldest lets the side with the oldest member go on, however small,
	// unless the oldest is alone and KeepOldestAlone is not set.
	DowningKeepOldest = splitbrain.DowningKeepOldest
	// DowningAll makes all members stop when any is unreachable.
	DowningAll = splitbrain.DowningAll
	// DowningLeaseMajority keeps the side that takes a lease in a common store. The driver must
	// carry out [Output.TakeLease].
	DowningLeaseMajority = splitbrain.DowningLeaseMajority
)

// Config are a machine's settings. Zero values mean the defaults; negative ones are
// refused. Self must be set.
type Config = core.Config

// A RoleMinimum asks for a number of members with a role.
type RoleMinimum = core.RoleMinimum

// A View is the cluster as one node sees it at one moment: its members by age and by
// address, the leader, and whether the view has converged. It never changes.
type View = core.View

// Output is the driver's work after a step: send messages, publish events, keep to the
// lease, and call Step again at WakeAt.
type Output = core.Output

// An Envelope is a message to one node, or to all nodes of the cluster.
type Envelope = core.Envelope

// A LeaseRequest asks the driver to take the lease that decides splits, and to answer
// with [LeaseAnswer].
type LeaseRequest = core.LeaseRequest

// A Founding is the store's record of who founded the cluster.
type Founding = core.Founding

// A FoundingRequest asks the driver to read or write that record, and to answer with
// [FoundingAnswer].
type FoundingRequest = core.FoundingRequest

// A Refusal is the reason why a message was not obeyed.
type Refusal = core.Refusal

// The refusals that drivers distinguish; [Refusals] returns all.
const (
	NotRefused       = core.NotRefused
	RefusedMalformed = core.RefusedMalformed
)

// Refusals returns all refusals, in order.
func Refusals() []Refusal { return core.Refusals() }

// An Input is something that happened to a node.
type Input = core.Input

// The inputs.
type (
	Start          = core.Start          // begins joining
	Tick           = core.Tick           // time has passed
	Receive        = core.Receive        // a message arrived
	Unreachable    = core.Unreachable    // the broker knows no subscription of a node
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
	Shutdown       = core.Shutdown       // the node abandons the cluster
)

// An Event is a change of the view, in the order in which it was seen. A new subscriber
// starts with the current [View].
type Event = core.Event

// Events about members.
type (
	MemberJoined      = core.MemberJoined      // a node was admitted
	MemberWeaklyUp    = core.MemberWeaklyUp    // a joining member serves before convergence
	MemberUp          = core.MemberUp          // a member is full
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
	JoinerTooLarge   = core.JoinerTooLarge   // the state has no room for a joiner
	StateTooLarge    = core.StateTooLarge    // the state no longer fits a message
	JoinFailed       = core.JoinFailed       // this node could not join
	SelfDowned       = core.SelfDowned       // this node was downed and has to stop
	SelfRemoved      = core.SelfRemoved      // this node has left in order
)
