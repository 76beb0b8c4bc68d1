package shard

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/runtime/membership"
)

// Every call, tell and frame that does not take the straight way is counted
// under its reason.
type reason int

const (
	callBuffered      reason = iota // held at the sender: no home known
	callForwarded                   // sent on to the new home
	callRetried                     // sent again after it was not executed
	callRefused                     // answered with an error that says it did not run
	callExpired                     // its deadline passed first
	callShed                        // the oldest of too many that waited for a singleton
	callCancelled                   // its caller gave up while it waited here: it did not run
	callDropped                     // accepted, then lost with its shard
	tellLost                        // a tell nobody could deliver
	tellGivenUp                     // a tell of a durable entity that was not committed in time
	dropNoPeer                      // an envelope to a peer that is gone
	replyUnclaimed                  // an answer nobody waits for any more
	frameForeign                    // bytes that are no frame
	frameIgnored                    // a frame out of order, repeated or from nobody known
	frameBounced                    // nobody listened
	shardMovedIn                    // shards that came with their state
	shardMovedOut                   // shards that went
	tableMoved                      // changes of a shard's home in the table
	barrierTimedOut                 // senders whose older calls did not come through an old home in time
	entityPassivated                // entities put to rest
	entityEvicted                   // of these, for their type had too many
	entityForgotten                 // entities ended for good
	entitySupervised                // supervisors' decisions other than to resume
	rememberedStarted               // remembered entities that were started again
	rememberedFailed                // of these, whose activation failed
	rememberedLate                  // ids that were not safe in time
	rememberFailed                  // failures of the store of remembered ids
	stateLost                       // entities whose state did not encode when their node left
	hookAbandoned                   // stop hooks that did not return in time
	leftUnacked                     // messages that a peer had not acknowledged when this node left
	frameSent                       // frames published, each with many envelopes under load
	messageNewer                    // control messages that only a later release knows
	limitTooLow                     // frames that wait because the broker takes next to nothing
	// membershipRefused is the first of the reasons of membership.Refusal, of which
	// RefusedMalformed is the last.
	membershipRefused
	reasons = membershipRefused + reason(membership.RefusedMalformed)
)

// names of the reasons, as people read them.
var reasonNames = [membershipRefused]string{
	callBuffered: "buffered", callForwarded: "forwarded", callRetried: "retried",
	callShed: "shed", callRefused: "refused", callExpired: "expired", callCancelled: "cancelled", callDropped: "dropped",
	tellLost: "tell lost", tellGivenUp: "tell given up", dropNoPeer: "peer gone", replyUnclaimed: "answer unclaimed",
	frameForeign: "foreign frame", frameIgnored: "ignored frame", frameBounced: "bounced frame",
	shardMovedIn: "shard moved in", shardMovedOut: "shard moved out",
	tableMoved: "shards moved", barrierTimedOut: "barrier timed out",
	entityPassivated: "entity passivated", entityEvicted: "entity evicted", entityForgotten: "entity forgotten",
	rememberedStarted: "entity started again", rememberedFailed: "entity not started again",
	rememberedLate: "remembered late", rememberFailed: "remember failed",
	entitySupervised: "supervised", hookAbandoned: "hook abandoned", stateLost: "state lost", leftUnacked: "not acknowledged", frameSent: "frames sent",
	messageNewer: "newer message", limitTooLow: "broker limit too low",
}

// String names the reason.
func (r reason) String() string {
	if r >= membershipRefused {
		return "membership " + membership.Refusal(r-membershipRefused+1).String()
	}
	return reasonNames[r]
}

// refusedFor is the reason under which a membership message that was not obeyed is
// counted.
func refusedFor(why membership.Refusal) reason { return membershipRefused + reason(why) - 1 }

// counters count by reason. It is safe for concurrent use.
type counters [reasons]atomic.Uint64

func (l *counters) add(r reason) { l[r].Add(1) }

// addSeldom is add for frequent events. It reports whether to log this one, which it does
// for the first, second, fourth, eighth …; n is the number of events so far.
func (l *counters) addSeldom(r reason) (n uint64, tell bool) {
	n = l[r].Add(1)
	return n, n&(n-1) == 0
}

func (l *counters) addN(r reason, n int) { l[r].Add(uint64(n)) }
func (l *counters) snapshot() map[string]uint64 {
	m := make(map[string]uint64, reasons)
	for r := range reasons {
		m[r.String()] = l[r].Load()
	}
	return m
}
