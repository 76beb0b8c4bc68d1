package node

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/driver/direct/agree"
	"github.com/shardgen/shardgen/runtime/membership"
)

// A Reason says why a call, tell, frame or shard did not take the usual path. Each reason has one
// counter.
type Reason int

const (
	callBuffered            Reason = iota // buffered at the sender, because the home is not known
	callForwarded                         // forwarded to the new home
	callRetried                           // sent again after it was not executed
	callRefused                           // answered with an error that says that the call did not run
	callExpired                           // its deadline passed before it was sent or run
	callShed                              // the oldest of too many calls that waited for a singleton: dropped
	callCancelled                         // did not run, because its caller gave up while it waited here
	callDropped                           // accepted, then lost with its shard
	tellLost                              // a tell that could not be delivered
	tellGivenUp                           // a tell of a durable entity that was not committed, or a message that was not stored, in time
	reminderWaits                         // a reminder whose method this program does not have
	reminderSkipped                       // a reminder that was dropped, because it was later than it may be
	reminderAside                         // a reminder that failed for too long
	messageWaits                          // attempts to publish a durable entity's message that failed
	dropNoPeer                            // an envelope for a peer that is gone
	answerUnclaimed                       // an answer for which no caller waits any more
	FrameForeign                          // bytes that are not a frame
	FrameIgnored                          // a frame that is out of order, repeated or from an unknown process
	frameBounced                          // a frame for which the broker found no listener
	shardMovedIn                          // shards that moved here
	shardMovedOut                         // shards that moved away
	tableMoved                            // changes of a shard's home in the table
	barrierTimedOut                       // barriers of senders whose Flush did not come through the old home in time
	EntityPassivated                      // entities that were passivated
	entityPassivatedForRoom               // entities passivated because their type had too many active ones
	entityForgotten                       // entities that were forgotten
	entitySupervised                      // supervisors' decisions other than actionResume
	RememberedActivated                   // remembered entities that were activated again
	RememberedFailed                      // remembered entities whose activation failed
	RememberedLate                        // ids that were not stored or copied in time
	RememberFailed                        // failures of the store of remembered ids
	stateLost                             // entities whose state did not encode when their node left
	hookAbandoned                         // stop hooks that did not return in time
	leftUnacked                           // envelopes that a peer had not acknowledged when this node left
	directOpened                          // direct lanes that were opened
	directRefused                         // direct lanes that were refused or not made
	directStranger                        // connections to the port of direct lanes that showed no announced key and nonce
	MessageNewer                          // control messages that only a later release knows
	MessageForbidden                      // messages that a process of the sender's class may not send
	ClientOverQuota                       // messages and sessions of clients above the bounds of one client name
	clientExpired                         // sessions of clients that ended: unused, or without a listener or an acknowledgement
	answerDropped                         // answers, or only their results, dropped because the client has too many unacknowledged
	limitTooLow                           // frames that wait because the broker's payload limit is too low
	// directEnded is the first of the counters of ended direct lanes, one for each agree.Reason.
	directEnded
	membershipRefused = directEnded + Reason(agree.Reasons)
	reasons           = membershipRefused + Reason(membership.RefusedMalformed)
)

// reasonNames are the keys in the result of Driver.Counters.
var reasonNames = [directEnded]string{
	callBuffered: "buffered", callForwarded: "forwarded", callRetried: "retried",
	callShed: "shed", callRefused: "refused", callExpired: "expired", callCancelled: "cancelled", callDropped: "dropped",
	tellLost: "tell lost", tellGivenUp: "tell given up", reminderWaits: "reminder waits", reminderSkipped: "reminder skipped", reminderAside: "reminder given up", messageWaits: "message waits", dropNoPeer: "peer gone", answerUnclaimed: "answer unclaimed",
	FrameForeign: "foreign frame", FrameIgnored: "ignored frame", frameBounced: "bounced frame",
	shardMovedIn: "shard moved in", shardMovedOut: "shard moved out",
	tableMoved: "shards moved", barrierTimedOut: "barrier timed out",
	EntityPassivated: "entity passivated", entityPassivatedForRoom: "entity passivated for room", entityForgotten: "entity forgotten",
	RememberedActivated: "entity activated again", RememberedFailed: "entity not activated again",
	RememberedLate: "remembered late", RememberFailed: "remember failed",
	entitySupervised: "supervised", hookAbandoned: "hook abandoned", stateLost: "state lost", leftUnacked: "not acknowledged",
	directOpened: "direct lane opened", directRefused: "direct lane refused",
	directStranger: "direct lane stranger",
	MessageNewer:   "newer message", MessageForbidden: "forbidden message",
	ClientOverQuota: "client over quota", clientExpired: "client expired", answerDropped: "answer dropped", limitTooLow: "broker limit too low",
}

// String names the reason.
func (r Reason) String() string {
	switch {
	case r >= membershipRefused:
		return "membership " + membership.Refusal(r-membershipRefused+1).String()
	case r >= directEnded:
		return "direct lane ended: " + agree.Reason(r-directEnded).String()
	}
	return reasonNames[r]
}

// RefusedFor returns the counter of the membership messages that are refused for this reason.
func RefusedFor(why membership.Refusal) Reason { return membershipRefused + Reason(why) - 1 }

// Counters counts events by reason. It is safe for concurrent use.
type Counters [reasons]atomic.Uint64

func (l *Counters) Add(r Reason) { l[r].Add(1) }

// AddSeldom counts a frequent event, for the reason r. It returns the number of events with that
// reason so far, and whether to log this event: the first, second, fourth, eighth and so on are
// logged.
func (l *Counters) AddSeldom(r Reason) (n uint64, tell bool) {
	n = l[r].Add(1)
	return n, n&(n-1) == 0
}

func (l *Counters) addN(r Reason, n int) { l[r].Add(uint64(n)) }
func (l *Counters) snapshot() map[string]uint64 {
	m := make(map[string]uint64, reasons)
	for r := range reasons {
		m[r.String()] = l[r].Load()
	}
	return m
}
