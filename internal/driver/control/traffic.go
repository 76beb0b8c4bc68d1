package control

import (
	"sync/atomic"

	"github.com/shardgen/shardgen/internal/core/membership/message"
	"github.com/shardgen/shardgen/runtime/membership"
)

// messageNames are the names of the kinds of membership messages, in the order of Traffic's counts.
var messageNames = [...]string{
	"other", "hello", "hello ack", "join", "welcome", "join refused", "gossip", "status", "heartbeat", "heartbeat ack",
	"alive", "echo", "removal", "vote", "vote ack",
	"snapshot", "stand", "stand ack", "probe", "probe ack", "indirect probe", "indirect ack", "touch",
}

func messageKind(m membership.Message) int {
	switch m.(type) {
	case message.Hello:
		return 1
	case message.HelloAck:
		return 2
	case message.Join:
		return 3
	case message.Welcome:
		return 4
	case message.JoinRefused:
		return 5
	case message.Gossip:
		return 6
	case message.Status:
		return 7
	case message.Heartbeat:
		return 8
	case message.HeartbeatAck:
		return 9
	case message.Alive:
		return 10
	case message.Echo:
		return 11
	case message.Removal:
		return 12
	case message.Vote:
		return 13
	case message.VoteAck:
		return 14
	case message.Snapshot:
		return 15
	case message.Stand:
		return 16
	case message.StandAck:
		return 17
	case message.Probe:
		return 18
	case message.ProbeAck:
		return 19
	case message.IndirectProbe:
		return 20
	case message.IndirectAck:
		return 21
	case message.Touch:
		return 22
	}
	return 0
}

// A Traffic counts the membership messages, and the downed members. It is safe for concurrent use.
type Traffic struct {
	sent, received [len(messageNames)]atomic.Uint64
	downed         [membership.EvidenceGone + 1]atomic.Uint64 // by evidence
}

// MessageCount has the numbers of messages of one kind that this process has sent and received.
type MessageCount struct {
	Kind           string // "heartbeat", "gossip", "status" and so on
	Sent, Received uint64 // a message to all members counts once
}

// Messages returns the counts of all kinds of messages.
func (t *Traffic) Messages() (all []MessageCount) {
	for i, name := range messageNames {
		all = append(all, MessageCount{name, t.sent[i].Load(), t.received[i].Load()})
	}
	return all
}

// Downed returns the numbers of downed members in this process's view by the strongest evidence
// against them: "none" (for example when downed by an operator), "silent", "cut", "lost" or "gone".
func (t *Traffic) Downed() map[string]uint64 {
	all := make(map[string]uint64, len(t.downed))
	for i := range t.downed {
		all[membership.Evidence(i).String()] = t.downed[i].Load()
	}
	return all
}

func (t *Traffic) noteSent(m membership.Message)     { t.sent[messageKind(m)].Add(1) }
func (t *Traffic) noteReceived(m membership.Message) { t.received[messageKind(m)].Add(1) }

func (t *Traffic) noteDowned(e membership.Evidence) {
	if int(e) < len(t.downed) {
		t.downed[e].Add(1)
	}
}
