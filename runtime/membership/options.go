package membership

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/shardgen/shardgen/store/membertable"
	"github.com/shardgen/shardgen/transport"
)

// Options are the user's settings of membership: how members join, leave, watch and judge each
// other. The zero value of every field is its default, which suits most clusters. MonitoredBy,
// Detection, SelfHeartbeatTimeout, QuorumTimeout, GoneAfter, CutAfter, SilentAfter, AgreedAfter and
// all fields of Downing must be equal at all members: a node that differs is refused at joining.
// Clients use JoinTimeout alone.
type Options struct {
	// MinMembers is the number of members that must have joined before the first becomes Up.
	// Default 1.
	MinMembers int
	// MinRoleMembers are further minimums, by role: that many members with the role must have
	// joined before the first becomes Up. Default none.
	MinRoleMembers map[string]int
	// JoinByCommand makes the node wait, connected, until [Node.Join] is called or an
	// operator commands it to join (shardctl join). Start then returns as soon as the
	// node is connected. Default false: Start joins.
	JoinByCommand bool
	// JoinTimeout bounds joining and Dial, including the wait for the end of a live node
	// with the same name. A node that has joined waits for MinMembers as long as the
	// context of Start allows. Default 30s, minimum 1s.
	JoinTimeout time.Duration
	// LeaveDelay is how long a node works on after Shutdown is called, with [Node.Health] not
	// ready, before it leaves the cluster: the time that load balancers need to notice. A node that
	// was never Up does not wait. Default 0.
	LeaveDelay time.Duration
	// LeaveTimeout bounds how long Shutdown gives shards away before it ends the contexts of
	// running methods. Default 60s, minimum 1s.
	LeaveTimeout time.Duration

	// WeaklyUpAfter is how long joining members wait for all members to agree before they become
	// weakly up. Weakly up members serve clients but host nothing. Default 0: never.
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
	// GossipManyMembers is the number of members up to which GossipToUnseen holds. In larger
	// clusters the share falls, to a quarter of GossipToUnseen at four times GossipManyMembers,
	// because many members would choose the same few. Default 400, minimum 1.
	GossipManyMembers int
	// GossipMaxWait is how long received gossip may wait in this process before it is dropped
	// unread as outdated. Default 2s.
	GossipMaxWait time.Duration
	// Detection says how many observers must miss a silent or cut off member until it is
	// unreachable. Default DetectionManyEdges. It must be equal at all members.
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
	// GoneAfter is how long a member's own server must report no subscriber for it before the
	// member is downed. Observers at other servers ask that server in clusters of at most
	// MonitoredBy+1 members. Default 1s, at least SelfHeartbeatTimeout.
	GoneAfter time.Duration
	// CutAfter is how long other servers must report no subscriber for a member before the majority
	// downs it, if the member's own server cannot be asked. Default 6s, at least QuorumTimeout. A
	// node that did not hear itself through the broker for more than SelfHeartbeatTimeout uses
	// SilentAfter instead, until it has heard itself for SilentAfter.
	CutAfter time.Duration
	// SilentAfter is how long a member must be silent before the majority downs it. Default 15s, at
	// least QuorumTimeout.
	SilentAfter time.Duration
	// AgreedAfter replaces SilentAfter in clusters of at most MonitoredBy+1 members (6 by default)
	// if more than half of them miss the member themselves. With a table it replaces missed probes
	// if Votes of the three oldest members miss the member. So a hanging process is replaced
	// sooner. Raise it if members may pause for longer in ordinary operation; setting it to
	// SilentAfter turns it off. Default QuorumTimeout, which is also the minimum. A node that did
	// not hear itself through the broker judges by SilentAfter, as described at CutAfter.
	AgreedAfter time.Duration
	// QuarantineAfter is how long a member that answers heartbeats may leave a repeated request of
	// the coordinator unanswered. The member is then quarantined and can only be downed or removed,
	// because shards lack homes meanwhile. Default 60s, minimum 5s.
	QuarantineAfter time.Duration
	// Downing configures how unreachable members are judged. Default DowningBroker.
	Downing DowningOptions
	// Table lets the members agree through a table, instead of by gossip. Default: by gossip.
	Table TableOptions
}

// TableOptions configure membership by a table, after the cluster membership of Orleans: members
// probe each other, and agree by rows of a table that are written with compare-and-set. A node that
// agrees by gossip cannot join such a cluster, and the reverse. Successors, ProbeInterval, Missed,
// Votes, VoteWindow, AliveInterval, AliveLimit and Outage must be equal at all members. Of the
// other [Options], those of gossip, heartbeats, detection and downing, WeaklyUpAfter, SilentAfter,
// SeedTimeout and Config.Seeds have no effect and must not be set.
type TableOptions struct {
	// Store keeps the table, and chooses this kind of membership: *natsstore.Store (JetStream),
	// postgres.Store, etcd.Store, or one of your own (docs/guide/member-table.md). All members need
	// the same. Default nil: the members agree by gossip.
	Store membertable.Provider
	// Successors is the number of members that each member probes: the next ones on a hashed ring.
	// Default 3.
	Successors int
	// ProbeInterval is the time between two probes of one member, and the time within which a probe
	// must be answered; both grow up to ninefold while the probing member is unhealthy itself.
	// Default 10s.
	ProbeInterval time.Duration
	// Missed is the number of unanswered probes that make a suspicion. Default 3.
	Missed int
	// Votes is the number of members whose suspicions within VoteWindow declare a member dead; with
	// fewer other members, all of them. Default 2.
	Votes int
	// VoteWindow is how long a suspicion counts. Default 3m.
	VoteWindow time.Duration
	// Refresh is the time between two reads of the table. A read repairs the loss of a snapshot,
	// which each writer sends to the members. Default 60s.
	Refresh time.Duration
	// AliveInterval is the time between two I-am-alive writes of a member. Default 5m.
	AliveInterval time.Duration
	// AliveLimit is the number of I-am-alive writes that a member must have missed before a joiner
	// skips the member because it does not answer. Default 3.
	AliveLimit int
	// CleanAfter is the time after which rows of dead members are deleted. Default 168h, at least
	// twice JoinTimeout.
	CleanAfter time.Duration
	// Outage bounds how long members serve while no member that they hear reaches the table.
	// Newcomers that find only rows of unreachable members wait as long before they take over those
	// members' shards. Default 1h, at least AliveLimit times AliveInterval.
	Outage time.Duration
}

// DowningOptions configure how unreachable members are judged. All fields must be equal at all
// members: a node that differs is refused at joining.
type DowningOptions struct {
	// Strategy chooses the members to down. Default DowningBroker.
	Strategy Downing
	// Role restricts the vote of DowningStaticQuorum, DowningKeepMajority, DowningKeepOldest and
	// DowningLeaseMajority to members with this role. If all of these die, an operator must down
	// them. Default: all vote.
	Role string
	// StableAfter is how long the set of unreachable members must be stable before the strategy
	// decides. If the set keeps changing, the strategy decides after twice StableAfter, or up to 5s
	// later. Default 20s, at least Membership.QuorumTimeout. DowningBroker, DowningManual and
	// DowningAuto do not use it.
	StableAfter time.Duration
	// AutoDownAfter is how long a member is unreachable before DowningAuto downs it: at
	// least Membership.QuorumTimeout. It has no default and is used only by DowningAuto.
	AutoDownAfter time.Duration
	// AutoDownDespiteSharding allows DowningAuto on a node that hosts types. In a
	// partition each entity is then active once on every side. Default false.
	AutoDownDespiteSharding bool
	// QuorumSize is the number of members that DowningStaticQuorum needs; at most
	// 2*QuorumSize-1 are admitted. It has no default and is used only by
	// DowningStaticQuorum.
	QuorumSize int
	// KeepOldestAlone lets DowningKeepOldest keep an oldest member that is cut off
	// from all others. Default false: the others go on.
	KeepOldestAlone bool
	// MinorityDelay is how much later than the larger side the smaller side tries to take
	// the lease of DowningLeaseMajority. Default 2s.
	MinorityDelay time.Duration
}

// WithDefaults returns the options with defaults in place of zero values. The core sets further
// defaults, because some depend on the size of the cluster.
func (o Options) WithDefaults() Options {
	set := func(d *time.Duration, def time.Duration) { *d = cmp.Or(*d, def) }
	o.MinMembers = cmp.Or(o.MinMembers, 1)
	set(&o.JoinTimeout, 30*time.Second)
	set(&o.LeaveTimeout, 60*time.Second)
	set(&o.SeedTimeout, time.Second) // package control logs seeds that are missing after a multiple of SeedTimeout
	set(&o.SelfHeartbeatTimeout, time.Second)
	set(&o.QuorumTimeout, 5*time.Second)
	set(&o.GoneAfter, time.Second)
	set(&o.CutAfter, 6*time.Second)
	set(&o.SilentAfter, 15*time.Second)
	set(&o.AgreedAfter, o.QuorumTimeout)
	set(&o.QuarantineAfter, 60*time.Second)
	set(&o.Downing.StableAfter, 20*time.Second)
	set(&o.Downing.MinorityDelay, 2*time.Second)
	if t := &o.Table; t.Store != nil {
		t.Successors, t.Missed, t.Votes, t.AliveLimit = cmp.Or(t.Successors, 3), cmp.Or(t.Missed, 3), cmp.Or(t.Votes, 2), cmp.Or(t.AliveLimit, 3)
		set(&t.ProbeInterval, 10*time.Second)
		set(&t.VoteWindow, 3*time.Minute)
		set(&t.Refresh, time.Minute)
		set(&t.AliveInterval, 5*time.Minute)
		set(&t.CleanAfter, 7*24*time.Hour)
		set(&t.Outage, time.Hour)
	}
	return o
}

// Configure sets the options in the config of a machine.
func (o Options) Configure(c *Config) {
	c.MinMembers, c.JoinTimeout = o.MinMembers, o.JoinTimeout
	for _, role := range slices.Sorted(maps.Keys(o.MinRoleMembers)) {
		c.MinRoleMembers = append(c.MinRoleMembers, RoleMinimum{Role: role, Members: o.MinRoleMembers[role]})
	}
	c.SeedTimeout, c.WeaklyUpAfter = o.SeedTimeout, o.WeaklyUpAfter
	c.GossipInterval, c.GossipMaxWait, c.GossipSpeedup = o.GossipInterval, o.GossipMaxWait, o.GossipSpeedup
	c.GossipToUnseen, c.GossipManyMembers = o.GossipToUnseen, o.GossipManyMembers
	c.HeartbeatInterval, c.MonitoredBy, c.PhiThreshold, c.Detection = o.HeartbeatInterval, o.MonitoredBy, o.PhiThreshold, o.Detection
	c.PauseAllowance, c.SelfHeartbeatTimeout, c.QuorumTimeout = o.PauseAllowance, o.SelfHeartbeatTimeout, o.QuorumTimeout
	c.GoneAfter, c.CutAfter, c.SilentAfter, c.AgreedAfter = o.GoneAfter, o.CutAfter, o.SilentAfter, o.AgreedAfter
	d := o.Downing
	c.Downing, c.DowningRole, c.StableAfter = d.Strategy, d.Role, d.StableAfter
	c.AutoDownAfter, c.QuorumSize, c.KeepOldestAlone = d.AutoDownAfter, d.QuorumSize, d.KeepOldestAlone
	c.MinorityDelay = d.MinorityDelay
	if t := o.Table; t.Store != nil {
		c.ProbeVacancy, c.Founding = false, false // the table shows whether there are members
		c.Table = Table{
			Enabled: true, Successors: t.Successors, ProbeInterval: t.ProbeInterval, Missed: t.Missed, Votes: t.Votes, VoteWindow: t.VoteWindow,
			Refresh: t.Refresh, AliveInterval: t.AliveInterval, AliveLimit: t.AliveLimit, CleanAfter: t.CleanAfter, Outage: t.Outage,
			StandInterval: min(500*time.Millisecond, o.QuorumTimeout/10),
		}
	}
}

// Validate returns an error that names all fields out of their bounds. Call WithDefaults first. The
// core checks which fields of Downing exclude each other. stored reports whether there is a store.
func (o Options) Validate(stored bool) error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("config: Membership."+format, args...))
		}
	}
	bad(o.MinMembers >= 1, "MinMembers is %d: want at least 1", o.MinMembers)
	for _, role := range slices.Sorted(maps.Keys(o.MinRoleMembers)) {
		err := transport.CheckName("role", role)
		bad(err == nil, "MinRoleMembers: %v", err)
		bad(o.MinRoleMembers[role] >= 1, "MinRoleMembers[%s] is %d: want at least 1", role, o.MinRoleMembers[role])
	}
	bad(o.JoinTimeout >= time.Second, "JoinTimeout is %v: want at least 1s", o.JoinTimeout)
	bad(o.LeaveDelay >= 0, "LeaveDelay is %v: want 0 or more", o.LeaveDelay)
	bad(o.LeaveTimeout >= time.Second, "LeaveTimeout is %v: want at least 1s", o.LeaveTimeout)
	for _, d := range []struct {
		name string
		time time.Duration
	}{
		{"WeaklyUpAfter", o.WeaklyUpAfter},
		{"SeedTimeout", o.SeedTimeout},
		{"GossipInterval", o.GossipInterval},
		{"GossipMaxWait", o.GossipMaxWait},
		{"HeartbeatInterval", o.HeartbeatInterval},
		{"PauseAllowance", o.PauseAllowance},
	} {
		bad(d.time >= 0, "%s is %v: want 0 for the default, or more", d.name, d.time)
	}
	bad(o.GossipSpeedup >= 0, "GossipSpeedup is %d: want at least 1", o.GossipSpeedup)
	bad(o.GossipToUnseen >= 0 && o.GossipToUnseen <= 1, "GossipToUnseen is %v: want more than 0, at most 1", o.GossipToUnseen)
	bad(o.GossipManyMembers >= 0, "GossipManyMembers is %d: want at least 1", o.GossipManyMembers)
	bad(o.Detection <= DetectionSingleObserver, "Detection is %d: want DetectionManyEdges or DetectionSingleObserver", o.Detection)
	bad(o.MonitoredBy >= 0, "MonitoredBy is %d: want at least 1", o.MonitoredBy)
	bad(o.PhiThreshold >= 0 && o.PhiThreshold <= 300, "PhiThreshold is %v: want more than 0, at most 300", o.PhiThreshold)
	bad(o.SelfHeartbeatTimeout > 0, "SelfHeartbeatTimeout is %v: want more than 0", o.SelfHeartbeatTimeout)
	bad(o.QuorumTimeout > 0, "QuorumTimeout is %v: want more than 0", o.QuorumTimeout)
	const why = "else a live member is replaced while it runs turns"
	bad(o.GoneAfter >= o.SelfHeartbeatTimeout, "GoneAfter is %v: want at least SelfHeartbeatTimeout (%v), %s", o.GoneAfter, o.SelfHeartbeatTimeout, why)
	bad(o.CutAfter >= o.QuorumTimeout, "CutAfter is %v: want at least QuorumTimeout (%v), %s", o.CutAfter, o.QuorumTimeout, why)
	bad(o.QuarantineAfter >= 5*time.Second, "QuarantineAfter is %v: want at least 5s", o.QuarantineAfter)
	bad(o.AgreedAfter >= o.QuorumTimeout, "AgreedAfter is %v: want at least QuorumTimeout (%v), %s", o.AgreedAfter, o.QuorumTimeout, why)
	const downing = "Downing."
	d := o.Downing
	bad(d.StableAfter >= o.QuorumTimeout, downing+"StableAfter is %v: want at least Membership.QuorumTimeout (%v)", d.StableAfter, o.QuorumTimeout)
	bad(d.AutoDownAfter == 0 || d.AutoDownAfter >= o.QuorumTimeout, downing+"AutoDownAfter is %v: want at least Membership.QuorumTimeout (%v)", d.AutoDownAfter, o.QuorumTimeout)
	bad(d.MinorityDelay >= 0, downing+"MinorityDelay is %v: want 0 for the default, or more", d.MinorityDelay)
	bad(d.Strategy != DowningLeaseMajority || stored, downing+"Strategy is %q, and Config.Store is nil: set what natsstore.Open returns", d.Strategy)
	bad(o.SilentAfter >= o.QuorumTimeout, "SilentAfter is %v: want at least QuorumTimeout (%v), %s", o.SilentAfter, o.QuorumTimeout, why)
	return errors.Join(append(errs, o.Table.validate(o))...)
}

func (t TableOptions) validate(o Options) error {
	unset := t
	unset.Store = nil
	if t.Store == nil {
		if unset != (TableOptions{}) {
			return errors.New("config: Membership.Table has settings, and Table.Store is nil: set Store too, or leave Table empty")
		}
		return nil
	}
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("config: Membership."+format, args...))
		}
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"Successors", t.Successors}, {"Missed", t.Missed}, {"Votes", t.Votes}, {"AliveLimit", t.AliveLimit}} {
		bad(n.value >= 1, "Table.%s is %d: want at least 1", n.name, n.value)
	}
	for _, d := range []struct {
		name string
		time time.Duration
	}{
		{"ProbeInterval", t.ProbeInterval},
		{"VoteWindow", t.VoteWindow},
		{"Refresh", t.Refresh},
		{"AliveInterval", t.AliveInterval},
	} {
		bad(d.time >= 100*time.Millisecond, "Table.%s is %v: want at least 100ms", d.name, d.time)
	}
	bad(t.CleanAfter >= 2*o.JoinTimeout, "Table.CleanAfter is %v: want at least twice JoinTimeout (%v)", t.CleanAfter, o.JoinTimeout)
	bad(t.Outage >= time.Duration(t.AliveLimit)*t.AliveInterval, "Table.Outage is %v: want at least AliveLimit (%d) times AliveInterval (%v)",
		t.Outage, t.AliveLimit, t.AliveInterval)
	bad(o.QuorumTimeout > o.SelfHeartbeatTimeout, "QuorumTimeout is %v: want more than SelfHeartbeatTimeout (%v)", o.QuorumTimeout, o.SelfHeartbeatTimeout)
	defaults := Options{QuorumTimeout: o.QuorumTimeout}.WithDefaults()
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"WeaklyUpAfter", o.WeaklyUpAfter != 0},
		{"SeedTimeout", o.SeedTimeout != defaults.SeedTimeout},
		{"GossipInterval", o.GossipInterval != 0},
		{"GossipSpeedup", o.GossipSpeedup != 0},
		{"GossipToUnseen", o.GossipToUnseen != 0},
		{"GossipManyMembers", o.GossipManyMembers != 0},
		{"GossipMaxWait", o.GossipMaxWait != 0},
		{"Detection", o.Detection != 0},
		{"HeartbeatInterval", o.HeartbeatInterval != 0},
		{"MonitoredBy", o.MonitoredBy != 0},
		{"PhiThreshold", o.PhiThreshold != 0},
		{"PauseAllowance", o.PauseAllowance != 0},
		{"SilentAfter", o.SilentAfter != defaults.SilentAfter},
		{"Downing", o.Downing != defaults.Downing},
	} {
		bad(!f.set, "%s is set, and Table.Store too: it has no effect beside a table (leave it unset)", f.name)
	}
	return errors.Join(errs...)
}
