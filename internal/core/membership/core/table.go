package core

import (
	"fmt"
	"time"

	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A Table has the settings of membership by a table. Zero values mean the defaults, which are those
// of the Orleans paper where it names one. All members should have the same settings.
type Table struct {
	// Enabled chooses the table; otherwise the members agree by gossip.
	Enabled bool
	// Successors is how many members on the hashed ring a member probes. Default 3.
	Successors int
	// ProbeInterval is the time between two probes of one member, within which each must be
	// answered. It is up to 9 times as long while the prober itself is unhealthy. Default 10s.
	ProbeInterval time.Duration
	// Missed is the number of probes without an answer that make a suspicion. Default 3.
	Missed int
	// Votes is the number of suspicions by different members within VoteWindow that declare a
	// member dead; fewer suffice if there are fewer others. Default 2.
	Votes int
	// VoteWindow is how long a suspicion counts. Default 3m.
	VoteWindow time.Duration
	// Refresh is the time between two reads of the table. Default 60s.
	Refresh time.Duration
	// AliveInterval is the time between two I-am-alive writes of a member. Default 5m.
	AliveInterval time.Duration
	// AliveLimit is the number of missing I-am-alive writes after which joiners skip a member that
	// does not answer. Default 3.
	AliveLimit int
	// CleanAfter is the time after which the rows of dead members are deleted. Default 168h;
	// JoinTimeout must be below half of it, so that no joiner makes its row again.
	CleanAfter time.Duration
	// Outage bounds how long members go on while no member that they hear can write to the table.
	// After it, a cluster that cannot reach the table's other members takes over their shards.
	// Default 1h; AliveInterval*AliveLimit must not be higher.
	Outage time.Duration
	// StandInterval is the time between two stands; above SmallCluster members it is twice as long.
	// Default 500ms; it must be at most a tenth of QuorumTimeout.
	StandInterval time.Duration
	// TouchInterval is the time between two touches of a watched member, messages that the broker
	// reports if nobody listens; above SmallCluster members it is four times as long. Default
	// 250ms.
	TouchInterval time.Duration
	// Within bounds the driver's attempt of one request to the table. Default 5s.
	Within time.Duration
}

func (t Table) withDefaults() Table {
	for _, d := range []struct {
		value   *time.Duration
		initial time.Duration
	}{
		{&t.ProbeInterval, 10 * time.Second},
		{&t.VoteWindow, 3 * time.Minute},
		{&t.Refresh, time.Minute},
		{&t.AliveInterval, 5 * time.Minute},
		{&t.CleanAfter, 7 * 24 * time.Hour},
		{&t.Outage, time.Hour},
		{&t.StandInterval, 500 * time.Millisecond},
		{&t.TouchInterval, 250 * time.Millisecond},
		{&t.Within, 5 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.initial
		}
	}
	for _, n := range []struct {
		value   *int
		initial int
	}{{&t.Successors, 3}, {&t.Missed, 3}, {&t.Votes, 2}, {&t.AliveLimit, 3}} {
		if *n.value == 0 {
			*n.value = n.initial
		}
	}
	return t
}

// kind returns the value of kindKey: settings that must be equal at all members.
func (t Table) kind() string {
	return fmt.Sprintf("table with Successors %d, ProbeInterval %v, Missed %d, Votes %d, VoteWindow %v, AliveInterval %v, AliveLimit %d, Outage %v",
		t.Successors, t.ProbeInterval, t.Missed, t.Votes, t.VoteWindow, t.AliveInterval, t.AliveLimit, t.Outage)
}

func (t Table) validate(c Config) error {
	for _, d := range []time.Duration{
		t.ProbeInterval, t.VoteWindow, t.Refresh, t.AliveInterval, t.CleanAfter, t.Outage, t.StandInterval, t.TouchInterval, t.Within,
	} {
		if d < 0 {
			return fmt.Errorf("configure membership: a duration of Table is negative: %v (0 means the default)", d)
		}
	}
	switch {
	case t.Successors < 0 || t.Missed < 0 || t.Votes < 0 || t.AliveLimit < 0:
		return fmt.Errorf("configure membership: Table.Successors, Missed, Votes or AliveLimit is negative (0 means the default)")
	case 10*t.StandInterval > c.QuorumTimeout:
		return fmt.Errorf("configure membership: Table.StandInterval is %v: want at most a tenth of QuorumTimeout %v", t.StandInterval, c.QuorumTimeout)
	case time.Duration(t.AliveLimit)*t.AliveInterval > t.Outage:
		return fmt.Errorf("configure membership: Table.Outage is %v: want at least AliveLimit %d times AliveInterval %v", t.Outage, t.AliveLimit, t.AliveInterval)
	case t.CleanAfter < 2*c.JoinTimeout:
		return fmt.Errorf("configure membership: Table.CleanAfter is %v: want at least twice JoinTimeout %v", t.CleanAfter, c.JoinTimeout)
	case c.QuorumTimeout <= c.SelfHeartbeatTimeout:
		return fmt.Errorf("configure membership: QuorumTimeout %v is not above SelfHeartbeatTimeout %v", c.QuorumTimeout, c.SelfHeartbeatTimeout)
	}
	return nil
}

// A TableRead asks the driver to read all rows and the version of the table, and to answer with
// [TableRows]. A read may return an earlier state of the table, even earlier than the read before.
type TableRead struct {
	Number uint64        // of this machine's requests to the table
	Within time.Duration // bounds the driver's attempt
}

// A TableWrite asks the driver to write or delete rows and to raise the table's version in one
// atomic step, if the version is still Version. Each row raises it by at least one. The answer is
// [TableWritten].
type TableWrite struct {
	Number  uint64
	Rows    []rows.Row          // by address; at most 100
	Delete  []transport.Address // deletes these rows instead; at most 100
	Version uint64              // that the table must have
	Within  time.Duration
}

// A TableAlive asks the driver to record in this member's row, if there is one, that the member is
// alive. The table's version does not change. The answer is [TableWritten].
type TableAlive struct {
	Number uint64
	At     time.Time
	Within time.Duration
}

// TableRows answers a [TableRead].
type TableRows struct {
	Number uint64
	Table  *rows.Table // nil if the table was out of reach
	Reason string      // why it was
}

// TableWritten answers a [TableWrite] or a [TableAlive]. If neither Done nor Conflict is set, the
// outcome is unknown, and the write may still be carried out later.
type TableWritten struct {
	Number   uint64
	Done     bool
	Conflict bool   // not done, and will not be: the version was another
	Version  uint64 // the new one, above the expected one, if Done
	Reason   string // why the outcome is not known
}

func (TableRows) input()    {}
func (TableWritten) input() {}
