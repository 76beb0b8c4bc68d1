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

// clientEnv implements control's interface for a Conn, a process that is not a member.
type clientEnv Conn

var _ control.ClientEnv = (*clientEnv)(nil)

// Now returns the time.
func (v *clientEnv) Now() time.Time { return time.Now() }

// Link returns the control channel's connection to the broker.
func (v *clientEnv) Link() control.Link { return v.link }

// Log logs a line.
func (v *clientEnv) Log(l control.Level, text string, args ...any) {
	v.log.Log(context.Background(), l, text, args...)
}

// Count counts an event.
func (v *clientEnv) Count(e control.Counter) (n uint64, tell bool) {
	return v.driver.Counts.AddSeldom(controlReasons[e])
}

// Waiting returns how many calls of a type wait for a home.
func (v *clientEnv) Waiting(kind string) int { return v.driver.HeldFor(kind) }

// SetTable takes a newer table.
func (v *clientEnv) SetTable(t *placement.Table) { v.driver.SetTable(t) }

// BeginAnew forgets the state of the former cluster.
func (v *clientEnv) BeginAnew(members map[transport.Address]bool) {
	v.reasons.Clear()
	v.driver.BeginAnew(members)
}

// AwaitsBounce reports whether a process may yet prove not to have received a call.
func (v *clientEnv) AwaitsBounce() bool { return v.driver.Sessions.AwaitsBounce() }

// Callable returns the singleton of that name as this process calls it.
func (v *clientEnv) Callable(kind string) singlehost.Callable { return v.driver.Singleton(kind) }

// Peers returns the processes that this one has dealt with.
func (v *clientEnv) Peers() []transport.Address { return v.driver.Sessions.Addresses() }

// PeerGone closes the sessions with a process that is no longer a member.
func (v *clientEnv) PeerGone(a transport.Address) {
	v.driver.Data.PeerGone(a, calls.AllLanes, false)
}

// PeerAbsent records that a process is not in the list of members.
func (v *clientEnv) PeerAbsent(a transport.Address) { v.driver.Sessions.MarkLeft(a) }

// PeerBack records that a process is in the list of members again.
func (v *clientEnv) PeerBack(a transport.Address) {
	v.driver.Sessions.Forgive(a)
	v.driver.Sessions.MarkBack(a)
}

// Direct handles a message of a member about direct lanes.
func (v *clientEnv) Direct(from transport.Peer, body []byte) error {
	return v.driver.DirectMessage(from, body)
}

// Heard records that this process's member sent something.
func (v *clientEnv) Heard(at time.Time) {
	v.mu.Lock()
	v.heardAt = at
	v.mu.Unlock()
}

// Served takes the types that are hosted in the cluster.
func (v *clientEnv) Served(kinds map[string]uint32) {
	v.mu.Lock()
	v.kinds = kinds
	v.mu.Unlock()
	v.once.Do(func() { close(v.served) })
}

// Refused takes the reason why a member does not serve this process.
func (v *clientEnv) Refused(why error) { (*Conn)(v).refusal(why) }

// TurnedAway fails the calls sent to a member without a session for this process.
func (v *clientEnv) TurnedAway(by transport.Address, why error) {
	v.driver.Pending.CompleteSent(func(s calls.Carrier) bool { return s.Peer().Address == by },
		calls.Result{Code: calls.TurnedAway, Text: why.Error()})
}

// SetWhy takes the reason why a type has no home.
func (v *clientEnv) SetWhy(kind, reason string) { v.reasons.Note(kind, reason, time.Now()) }
