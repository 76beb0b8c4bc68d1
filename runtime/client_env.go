package shard

import (
	"context"
	"time"

	"github.com/shardgen/shardgen/internal/driver/calls"
	"github.com/shardgen/shardgen/internal/driver/control"
	"github.com/shardgen/shardgen/internal/driver/singlehost"
	"github.com/shardgen/shardgen/runtime/placement"
	"github.com/shardgen/shardgen/transport"
)

type clientEnv Conn

var _ control.ClientEnv = (*clientEnv)(nil)

func (v *clientEnv) Now() time.Time { return time.Now() }

// Link returns the control channel's connection to the broker.
func (v *clientEnv) Link() control.Link { return v.link }

func (v *clientEnv) Log(l control.Level, text string, args ...any) {
	v.log.Log(context.Background(), l, text, args...)
}

// Count raises the counter of e, and returns its new value and whether to log the event.
func (v *clientEnv) Count(e control.Counter) (n uint64, tell bool) {
	return v.driver.Counts.AddSeldom(controlReasons[e])
}

// Waiting returns how many calls of a type wait at this process because their shards have no home.
func (v *clientEnv) Waiting(kind string) int { return v.driver.HeldFor(kind) }

// SetTable replaces the shard table by a newer one.
func (v *clientEnv) SetTable(t *placement.Table) { v.driver.SetTable(t) }

// BeginAnew drops the state kept for the former cluster. It is called after all members have
// restarted.
func (v *clientEnv) BeginAnew(members map[transport.Address]bool) {
	v.reasons.Clear()
	v.driver.BeginAnew(members)
}

// AwaitsBounce reports whether the broker may still return a message of this process. A returned
// message proves that the receiver did not get its calls.
func (v *clientEnv) AwaitsBounce() bool { return v.driver.Sessions.AwaitsBounce() }

// Callable returns the proxy through which this process calls the singleton named kind.
func (v *clientEnv) Callable(kind string) singlehost.Callable { return v.driver.Singleton(kind) }

// Peers returns the processes with which this process has had sessions.
func (v *clientEnv) Peers() []transport.Address { return v.driver.Sessions.Addresses() }

// PeerGone closes the sessions with a process that is no longer a member.
func (v *clientEnv) PeerGone(a transport.Address) {
	v.driver.Data.PeerGone(a, calls.AllLanes, false)
}

// PeerAbsent records that a process is missing from the list of members.
func (v *clientEnv) PeerAbsent(a transport.Address) { v.driver.Sessions.MarkLeft(a) }

// PeerBack records that a process is again in the list of members.
func (v *clientEnv) PeerBack(a transport.Address) {
	v.driver.Sessions.Forgive(a)
	v.driver.Sessions.MarkBack(a)
	v.driver.Data.PeerBack(a)
}

// Direct handles a member's message about direct lanes.
func (v *clientEnv) Direct(from transport.Peer, body []byte) error {
	return v.driver.DirectMessage(from, body)
}

// Heard records when the latest message from the member that serves this process came.
func (v *clientEnv) Heard(at time.Time) {
	v.mu.Lock()
	v.heardAt = at
	v.mu.Unlock()
}

// Served replaces the set of types that the cluster hosts.
func (v *clientEnv) Served(kinds map[string]uint32) {
	v.mu.Lock()
	v.kinds = kinds
	v.mu.Unlock()
	v.once.Do(func() { close(v.served) })
}

// Refused handles a member's refusal to serve this process. why is its reason.
func (v *clientEnv) Refused(why error) { (*Conn)(v).refusal(why) }

// TurnedAway fails the calls sent to a member that has no session with this process and refused
// them. by is the member, and why its reason.
func (v *clientEnv) TurnedAway(by transport.Address, why error) {
	v.driver.Pending.CompleteSent(func(s calls.Carrier) bool { return s.Peer().Address == by },
		calls.Result{Code: calls.TurnedAway, Text: why.Error()})
}

// SetWhy stores the reason why a type's shards have no home.
func (v *clientEnv) SetWhy(kind, reason string) { v.reasons.Note(kind, reason, time.Now()) }
