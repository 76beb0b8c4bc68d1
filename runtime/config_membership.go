package shard

import (
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// MembershipOptions configures how members find, watch and judge each other. The zero value of
// every field is its default, which suits most clusters. MonitoredBy, Detection, SelfHeartbeatTimeout,
// QuorumTimeout, GoneAfter, CutAfter, SilentAfter and AgreedAfter must be equal at all
// members: a node that differs is refused at joining. Connections from outside use none
// of the fields.
type MembershipOptions struct {
	// WeaklyUpAfter is how long joining members wait for all members to agree before they
	// become weakly up, in which they serve clients but host nothing. Default 0: never.
	WeaklyUpAfter time.Duration
	// SeedTimeout is how long the first of Config.Seeds waits for the others before
	// it founds the cluster. Default 1s.
	SeedTimeout time.Duration

	// GossipInterval is the time between two rounds of gossip. Default 1s.
	GossipInterval time.Duration
	// GossipSpeedup is the number of rounds in an interval while fewer than half of the
	// members have seen the latest state. Default 3, minimum 1.
	GossipSpeedup int
	// GossipToUnseen is the share of gossip rounds sent to a member that has not seen the latest
	// state. Default 0.8, more than 0, at most 1.
	GossipToUnseen float64
	// GossipManyMembers is the number of members up to which GossipToUnseen holds. In
	// larger clusters the share falls, to a quarter at four times as many, because many
	// members would choose the same few. Default 400, minimum 1.
	GossipManyMembers int
	// GossipMaxWait is how long received gossip may wait in this process before it is
	// dropped unread, because newer gossip has come since. Default 2s.
	GossipMaxWait time.Duration
	// Detection is the number of observers that make a silent or cut off member
	// unreachable. Default ManyEdges. It must be equal at all members.
	Detection Detection
	// HeartbeatInterval is the time between two heartbeats to one watched member. A
	// longer one costs less and finds a silent member later. Default 500ms in clusters of
	// up to 50 members, and longer in larger ones.
	HeartbeatInterval time.Duration
	// MonitoredBy is the number of others that each member watches. Default 5, minimum 1. In
	// clusters of up to MonitoredBy+1 members all members watch all others, and silent
	// members are judged sooner: see AgreedAfter.
	MonitoredBy int
	// PhiThreshold is the suspicion (phi accrual) from which a silent member counts as
	// unreachable. Default 8, at most 300; 12 suits virtual machines that are migrated or
	// overcommitted.
	PhiThreshold float64
	// PauseAllowance is how long a member may be silent before suspicion begins to grow.
	// Default 3s.
	PauseAllowance time.Duration

	// SelfHeartbeatTimeout is how long turns may still start at a node that does not hear
	// itself through the broker. Default 1s.
	SelfHeartbeatTimeout time.Duration
	// QuorumTimeout is how long turns may still start at a node that does not hear
	// a majority of the members. Default 5s.
	QuorumTimeout time.Duration
	// GoneAfter is how long the broker must report no subscriber for a member, through the server
	// shared by observer and member, before the member is downed. Default 1s, at least SelfHeartbeatTimeout.
	GoneAfter time.Duration
	// CutAfter is how long the broker must report that nobody listens for a member, through another
	// server, before the majority downs it. Default 6s, at least QuorumTimeout. A node that missed
	// its own heartbeats through the broker for more than SelfHeartbeatTimeout uses SilentAfter instead, until
	// it has heard itself for SelfHeartbeatTimeout.
	CutAfter time.Duration
	// SilentAfter is how long a member must not answer before the majority downs it.
	// Default 15s, at least QuorumTimeout.
	SilentAfter time.Duration
	// AgreedAfter replaces SilentAfter in clusters of at most MonitoredBy+1 members (6 by default) if
	// more than half of them miss the member themselves, so that a hanging process is replaced
	// sooner. Raise it if a member may stand still for longer in ordinary operation; the value of
	// SilentAfter turns it off. Default QuorumTimeout, which is also the minimum. A node that did
	// not hear itself through the broker judges by SilentAfter, as described at CutAfter.
	AgreedAfter time.Duration
	// QuarantineAfter is how long a member may leave a repeated question of the coordinator
	// unanswered while it answers heartbeats. It is then quarantined, and can only be downed or
	// removed, because shards have no home meanwhile. Default 60s, minimum 5s.
	QuarantineAfter time.Duration
	// Downing configures how unreachable members are judged. Default DowningBroker.
	Downing DowningOptions
}

// Detection is the number of observers needed to mark a silent or cut-off member unreachable. One
// is enough for a member that the broker reports as gone.
type Detection = membership.Detection

// The ways of detection.
const (
	// ManyEdges: a member is unreachable when more of its observers accuse it than
	// do not, or when nobody that this node hears can hear it. One broken connection
	// between two members, or one member that cannot hear, makes nobody else
	// unreachable. After Rapid (Suresh and others, USENIX ATC 2018).
	ManyEdges = membership.DetectionManyEdges
	// SingleObserver: one observer is enough, as in the specification of Akka Cluster.
	// A silent member is noticed sooner, and one bad connection can remove a healthy one.
	SingleObserver = membership.DetectionSingleObserver
)

// withDefaults fills in the defaults that this package needs. The others are left to
// package membership, because some of them depend on the size of the cluster.
func (m MembershipOptions) withDefaults() MembershipOptions {
	set(&m.SeedTimeout, time.Second) // package control has a multiple of it, after which it logs the seeds that never came
	set(&m.SelfHeartbeatTimeout, time.Second)
	set(&m.QuorumTimeout, 5*time.Second)
	set(&m.GoneAfter, time.Second)
	set(&m.CutAfter, 6*time.Second)
	set(&m.SilentAfter, 15*time.Second)
	set(&m.AgreedAfter, m.QuorumTimeout)
	set(&m.QuarantineAfter, 60*time.Second)
	set(&m.Downing.StableAfter, 20*time.Second)
	set(&m.Downing.MinorityDelay, 2*time.Second)
	return m
}

// configure sets the options in the config of the membership machine.
func (m MembershipOptions) configure(c *membership.Config) {
	c.SeedTimeout, c.WeaklyUpAfter = m.SeedTimeout, m.WeaklyUpAfter
	c.GossipInterval, c.GossipMaxWait, c.GossipSpeedup = m.GossipInterval, m.GossipMaxWait, m.GossipSpeedup
	c.GossipToUnseen, c.GossipManyMembers = m.GossipToUnseen, m.GossipManyMembers
	c.HeartbeatInterval, c.MonitoredBy, c.PhiThreshold, c.Detection = m.HeartbeatInterval, m.MonitoredBy, m.PhiThreshold, m.Detection
	c.PauseAllowance, c.SelfHeartbeatTimeout, c.QuorumTimeout = m.PauseAllowance, m.SelfHeartbeatTimeout, m.QuorumTimeout
	c.GoneAfter, c.CutAfter, c.SilentAfter, c.AgreedAfter = m.GoneAfter, m.CutAfter, m.SilentAfter, m.AgreedAfter
	m.Downing.configure(c)
}

// validate reports the faults of the options. stored reports whether there is a store.
func (m MembershipOptions) validate(stored bool, bad func(ok bool, format string, args ...any)) {
	for _, d := range []struct {
		name string
		time time.Duration
	}{
		{"WeaklyUpAfter", m.WeaklyUpAfter},
		{"SeedTimeout", m.SeedTimeout},
		{"GossipInterval", m.GossipInterval},
		{"GossipMaxWait", m.GossipMaxWait},
		{"HeartbeatInterval", m.HeartbeatInterval},
		{"PauseAllowance", m.PauseAllowance},
	} {
		bad(d.time >= 0, "Membership.%s is %v: want 0 for the default, or more", d.name, d.time)
	}
	bad(m.GossipSpeedup >= 0, "Membership.GossipSpeedup is %d: want at least 1", m.GossipSpeedup)
	bad(m.GossipToUnseen >= 0 && m.GossipToUnseen <= 1, "Membership.GossipToUnseen is %v: want more than 0, at most 1", m.GossipToUnseen)
	bad(m.GossipManyMembers >= 0, "Membership.GossipManyMembers is %d: want at least 1", m.GossipManyMembers)
	bad(m.Detection <= SingleObserver, "Membership.Detection is %d: want ManyEdges or SingleObserver", m.Detection)
	bad(m.MonitoredBy >= 0, "Membership.MonitoredBy is %d: want at least 1", m.MonitoredBy)
	bad(m.PhiThreshold >= 0 && m.PhiThreshold <= 300, "Membership.PhiThreshold is %v: want more than 0, at most 300", m.PhiThreshold)
	bad(m.SelfHeartbeatTimeout > 0, "Membership.SelfHeartbeatTimeout is %v: want more than 0", m.SelfHeartbeatTimeout)
	bad(m.QuorumTimeout > 0, "Membership.QuorumTimeout is %v: want more than 0", m.QuorumTimeout)
	const why = "else a live member is replaced while it runs turns"
	bad(m.GoneAfter >= m.SelfHeartbeatTimeout, "Membership.GoneAfter is %v: want at least SelfHeartbeatTimeout (%v), %s", m.GoneAfter, m.SelfHeartbeatTimeout, why)
	bad(m.CutAfter >= m.QuorumTimeout, "Membership.CutAfter is %v: want at least QuorumTimeout (%v), %s", m.CutAfter, m.QuorumTimeout, why)
	bad(m.QuarantineAfter >= 5*time.Second, "Membership.QuarantineAfter is %v: want at least 5s", m.QuarantineAfter)
	bad(m.AgreedAfter >= m.QuorumTimeout, "Membership.AgreedAfter is %v: want at least QuorumTimeout (%v), %s", m.AgreedAfter, m.QuorumTimeout, why)
	m.Downing.validate(m.QuorumTimeout, stored, bad)
	bad(m.SilentAfter >= m.QuorumTimeout, "Membership.SilentAfter is %v: want at least QuorumTimeout (%v), %s", m.SilentAfter, m.QuorumTimeout, why)
}
