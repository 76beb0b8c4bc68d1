package message

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// The messages of a cluster whose members agree by a table. See package table for the protocol.

// Snapshot is the whole table, or the change by which its sender made a new version.
type Snapshot struct {
	Target uint32 // the receiver; 0 means all
	// Base is the version to which the change of Table and Deleted was applied; 0 means that Table
	// is whole.
	Base    uint64
	Table   *rows.Table
	Deleted []transport.Address
}

func (Snapshot) message() {}

// String is for transcripts and logs.
func (m Snapshot) String() string {
	if m.Base == 0 {
		return "snapshot " + m.Table.String()
	}
	text := fmt.Sprintf("change of version %d to %v", m.Base, m.Table)
	for _, a := range m.Deleted {
		text += " deleted " + a.Name
	}
	return text
}

// Stand tells a guide the version that the sender knows, and asks how long ago that version was
// certainly the table's latest. A guide is a member that answers for others. The sender knows no
// later version, and is declaring no member dead, except those in Except.
type Stand struct {
	Target  uint32     // the guide
	Seq     uint64     // the number of the stand, for the answer
	Version uint64     // the latest that the sender knows
	Got     uint64     // the Number of the guide's last answer that the sender has got; 0 means none
	Server  ServerMark // the broker instance of the sender
	// Except are members that the sender may have declared dead, by a write whose outcome it does
	// not know.
	Except []transport.Address
	// Alive is the age of the last I-am-alive write that the sender knows of; 0 means never.
	Alive time.Duration
	// Dead are the dead, unfenced members that the sender knows. It vouches for none of them any
	// more.
	Dead []Contact
}

// A Contact says how long ago the sender last exchanged stands with Node: it answered a [Stand] of
// Node, or got the answer to its own.
type Contact struct {
	Node transport.Address
	Age  time.Duration
}

func (Stand) message() {}

// String is for transcripts and logs.
func (m Stand) String() string { return fmt.Sprintf("stand %d at version %d", m.Seq, m.Version) }

// StandAck answers [Stand].
type StandAck struct {
	Target  uint32 // the sender of the stand
	Seq     uint64 // of the stand
	Number  uint64 // of the answer
	Version uint64 // of the guide
	// Age is the time since Version was certainly the table's latest version, at least 1 ms; 0
	// means that no such time is known.
	Age time.Duration
	// Written is like Age, but counts only times proved by a write to the table. It is not below
	// Age.
	Written time.Duration
}

func (StandAck) message() {}

// String is for transcripts and logs.
func (m StandAck) String() string {
	return fmt.Sprintf("stand-ack %d: version %d, %v ago", m.Seq, m.Version, m.Age)
}

// Probe asks a member for a sign of life, which is [ProbeAck].
type Probe struct {
	Target  uint32     // the probed member
	Seq     uint64     // the number of the probe, for the answer
	Version uint64     // that the receiver must have to answer; 0 means any. A joiner names the version with its row.
	Server  ServerMark // the broker instance of the sender
}

func (Probe) message() {}

// String is for transcripts and logs.
func (m Probe) String() string { return fmt.Sprintf("probe %d", m.Seq) }

// ProbeAck answers [Probe].
type ProbeAck struct {
	Target  uint32 // the sender of the probe
	Seq     uint64 // of the probe
	Version uint64 // that the answerer has
}

func (ProbeAck) message() {}

// String is for transcripts and logs.
func (m ProbeAck) String() string { return fmt.Sprintf("probe-ack %d version %d", m.Seq, m.Version) }

// IndirectProbe asks a third member to probe a subject, and to answer within a time with
// [IndirectAck].
type IndirectProbe struct {
	Target  uint32            // the third member
	Seq     uint64            // the number of the probe, for the answer
	Subject transport.Address // to be probed
	Within  time.Duration     // the time after which the third member answers no
}

func (IndirectProbe) message() {}

// String is for transcripts and logs.
func (m IndirectProbe) String() string {
	return fmt.Sprintf("indirect-probe %d of %s", m.Seq, m.Subject.Name)
}

// IndirectAck answers [IndirectProbe].
type IndirectAck struct {
	Target  uint32 // the asker
	Seq     uint64 // of the indirect probe
	Reached bool   // the subject has answered
	Health  uint32 // of the third member, from 0 to 8; its answer no counts only at 0
}

func (IndirectAck) message() {}

// String is for transcripts and logs.
func (m IndirectAck) String() string {
	if m.Reached {
		return fmt.Sprintf("indirect-ack %d: reached", m.Seq)
	}
	return fmt.Sprintf("indirect-ack %d: not reached, health %d", m.Seq, m.Health)
}

// Touch tests whether the receiver has a subscription. The receiver ignores it; if there is no
// subscription, the broker reports that.
type Touch struct{ Target uint32 }

func (Touch) message() {}

// String is for transcripts and logs.
func (Touch) String() string { return "touch" }
