package core

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/splitbrain"
	"github.com/shardgen/shardgen/transport"
)

// Config holds the settings of a membership machine. A zero value means the default;
// [Config.Validate] refuses negative values.
type Config struct {
	// Self is the address of this node. Its incarnation must be new at each start.
	Self transport.Address
	// Cluster is the cluster's name, for errors.
	Cluster string
	// Roles are labels by which members are chosen. At most 64.
	Roles []string
	// Seeds are the names of the nodes to join through; other members answer when these do not. If
	// no member answers, only the first seed forms a cluster. If Seeds is empty, the joiner with
	// the lowest incarnation forms it.
	Seeds []string
	// Meta is sent to all members with the record of this one. New sorts it.
	Meta []gossip.KeyValue
	// Compat holds settings that must be equal at all members with the key. The admitting member
	// compares a joiner's values with its own, and refuses a joiner with another value, naming
	// both. Members of one release have the same keys, so any of them can make the comparison.
	// WithDefaults adds the key "membership", whose value is the kind of membership.
	Compat []gossip.KeyValue
	// Differ compares the Meta of two members, and describes the first difference that is not
	// allowed, or returns "". It must be pure, and find a difference between a and b if it finds
	// one between b and a. A node that differs from any member is refused. If the admitting member
	// did not know the differing member yet, the joiner is downed before it becomes Up. Default
	// nil: any members fit.
	Differ func(a, b gossip.Member) string
	// MinMembers is the number of members that must have joined before the leader
	// makes the first one Up. Default 1.
	MinMembers int
	// MinRoleMembers holds further minimums of joined members, one per role.
	MinRoleMembers []RoleMinimum
	// Seed starts the machine's own deterministic random numbers.
	Seed uint64

	// JoinTimeout is the time after which an unadmitted node gives up. Default 30s.
	JoinTimeout time.Duration
	// FormWindow is how long a joiner without seeds listens for other nodes before it may form a
	// cluster, counted from the return of its own first hello. Default 200ms.
	FormWindow time.Duration
	// ProbeVacancy makes a joiner ask the broker for subscribed Up members before it forms a
	// cluster. If the broker has reported none in this round, the joiner forms a cluster after
	// FormWindow or SeedTimeout, and otherwise 6s later. Of several simultaneous joiners only one
	// forms a cluster. Members that lack processor time and answer late cause no second one. The
	// driver must carry out Output.Probe, Output.Claim and Output.Unclaim. Default false.
	ProbeVacancy bool
	// Founding makes a joiner form a cluster only after it has written itself as the founder into
	// the store's founding record. The driver must carry out Output.Founding. It needs
	// ProbeVacancy. Default false.
	Founding bool
	// SeedTimeout is how long the first seed waits for the others before it forms
	// the cluster. Default 1s.
	SeedTimeout time.Duration
	// WeaklyUpAfter is how long joining members wait for convergence before they become WeaklyUp.
	// Default 0: they never do.
	WeaklyUpAfter time.Duration

	// GossipInterval is the time between two rounds of gossip. Default 1s.
	GossipInterval time.Duration
	// GossipSpeedup is the number of gossip rounds in one GossipInterval while less than half of
	// the members have seen the present state. Default 3; 1 means no additional rounds.
	GossipSpeedup int
	// GossipMaxWait is how long received gossip may have waited in the driver's
	// queue before it is dropped unread. Default 2s.
	GossipMaxWait time.Duration
	// GossipToUnseen is the share of gossip rounds, from 0 to 1, sent to a member that has not seen
	// the present state. Default 0.8.
	GossipToUnseen float64
	// GossipManyMembers is the number of members up to which GossipToUnseen holds. Above it the
	// share falls, to a quarter of GossipToUnseen at four times as many members. Default 400.
	GossipManyMembers int

	// HeartbeatInterval is the time between two heartbeats to one watched member. Default 500ms up
	// to 50 members, 1s up to 200, 2s up to 600, 3s above: a member of a larger cluster then costs
	// no more than one of a small cluster, but its death is noticed later.
	HeartbeatInterval time.Duration
	// MonitoredBy is how many neighbours on the ring a member watches. Default 5.
	MonitoredBy int
	// Detection decides how many observers must accuse a member to make it unreachable. It should
	// be the same at all members. Default DetectionManyEdges.
	Detection gossip.Detection
	// SmallCluster is the number of members up to which each member sends its changes to all others
	// at once, and leases follow from broadcasts to all. In larger clusters the leader spreads
	// changes, a few members collect votes for leases, and only the leader downs members, in
	// batches. Default 50; it should be the same at all members.
	SmallCluster int
	// PhiThreshold is the suspicion at which a silent member is unreachable.
	// Default 8; 12 suits virtual machines that are migrated or overcommitted.
	PhiThreshold float64
	// PauseAllowance is how long a member may be silent before suspicion begins to grow: it allows
	// for garbage collection and busy processors. Default 3s.
	PauseAllowance time.Duration
	// EchoInterval is the time between two echoes. Default 300ms.
	EchoInterval time.Duration
	// ProbeInterval is the time between two probes of a suspected member. Default
	// 200ms.
	ProbeInterval time.Duration
	// PauseThreshold is how late a Tick must be for the machine to assume that its process was
	// stopped. Default 1s.
	PauseThreshold time.Duration

	// SelfHeartbeatTimeout is how long turns may start, counted from when the last returned echo
	// was sent. Default 1s. GoneAfter must not be lower.
	SelfHeartbeatTimeout time.Duration
	// QuorumTimeout is how long turns may start after a majority was heard.
	// Default 5s. CutAfter, SilentAfter and AgreedAfter must not be lower.
	QuorumTimeout time.Duration
	// Downing decides about unreachable members. It and its options must be equal
	// at all members. Default DowningBroker.
	Downing splitbrain.Downing
	// DowningRole restricts the vote of DowningStaticQuorum, DowningKeepMajority, DowningKeepOldest
	// and DowningLeaseMajority to the members with this role. While no such member is up, no
	// turns run. Default: all members vote.
	DowningRole string
	// StableAfter is how long the set of unreachable members must stay the same before the strategy
	// decides. If the set keeps changing, the strategy decides after twice that time, or at most 5s
	// later. DowningBroker and DowningManual do not use it. Default 20s; QuorumTimeout must not be
	// higher. Akka's default up to some hundred members is the same.
	StableAfter time.Duration
	// AutoDownAfter is how long a member must be unreachable before DowningAuto
	// downs it. No default.
	AutoDownAfter time.Duration
	// QuorumSize is how many members DowningStaticQuorum needs. No default. The cluster never has
	// more than 2*QuorumSize-1 members up, because otherwise two sides of a partition could each
	// have the quorum; further nodes stay joining.
	QuorumSize int
	// KeepOldestAlone makes DowningKeepOldest keep the oldest member even when it is partitioned
	// from all others. Default false: then the other members go on.
	KeepOldestAlone bool
	// MinorityDelay is how long the smaller side of a split waits before it tries to take the lease
	// of DowningLeaseMajority. Default 2s.
	MinorityDelay time.Duration
	// GoneAfter is how long a member's own server must report no subscriber for the member before it
	// counts as gone or lost. Default 1s.
	GoneAfter time.Duration
	// CutAfter is how long the broker must report no subscriber for a member at another server
	// before the member is downed by majority. Default 6s. A node whose own echoes stayed away for
	// more than SelfHeartbeatTimeout within the last SilentAfter waits for SilentAfter instead.
	CutAfter time.Duration
	// SilentAfter is how long a member must not answer before it is downed by
	// majority. Default 15s.
	SilentAfter time.Duration
	// AgreedAfter is how long a member must not answer before DowningBroker downs it if more than
	// half of the voters miss it themselves. It applies to clusters of at most MonitoredBy+1
	// members, where all members watch each other. A node whose own echoes stayed away waits for
	// SilentAfter, as with CutAfter. AgreedAfter has no effect above SilentAfter. Default
	// QuorumTimeout, which must not be higher.
	AgreedAfter time.Duration
	// Table has the settings of membership by a table.
	Table Table
}

// A RoleMinimum is the number of members with a role that the cluster needs.
type RoleMinimum struct {
	Role    string // of the members that are counted
	Members int    // how many there must be
}

func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		value   *time.Duration
		initial time.Duration
	}{
		{&c.JoinTimeout, 30 * time.Second},
		{&c.FormWindow, 200 * time.Millisecond},
		{&c.SeedTimeout, time.Second},
		{&c.GossipInterval, time.Second},
		{&c.GossipMaxWait, 2 * time.Second},
		{&c.PauseAllowance, 3 * time.Second},
		{&c.EchoInterval, 300 * time.Millisecond},
		{&c.ProbeInterval, 200 * time.Millisecond},
		{&c.PauseThreshold, time.Second},
		{&c.SelfHeartbeatTimeout, time.Second},
		{&c.QuorumTimeout, 5 * time.Second},
		{&c.GoneAfter, time.Second},
		{&c.CutAfter, 6 * time.Second},
		{&c.SilentAfter, 15 * time.Second},
		{&c.StableAfter, 20 * time.Second},
		{&c.MinorityDelay, 2 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.initial
		}
	}
	if c.AgreedAfter == 0 {
		c.AgreedAfter = c.QuorumTimeout
	}
	if c.MinMembers == 0 {
		c.MinMembers = 1
	}
	if c.GossipToUnseen == 0 {
		c.GossipToUnseen = 0.8
	}
	if c.GossipSpeedup == 0 {
		c.GossipSpeedup = 3
	}
	if c.GossipManyMembers == 0 {
		c.GossipManyMembers = 400
	}
	if c.MonitoredBy == 0 {
		c.MonitoredBy = 5
	}
	if c.SmallCluster == 0 {
		c.SmallCluster = 50
	}
	if c.PhiThreshold == 0 {
		c.PhiThreshold = 8
	}
	c.Table = c.Table.withDefaults()
	c = c.withDowning()
	c.Roles = slices.Compact(slices.Sorted(slices.Values(c.Roles)))
	c.Meta = gossip.SortKeyValues(c.Meta)
	c.Compat = gossip.SortKeyValues(c.withKind())
	return c
}

// kindKey is the key of Compat for the kind of membership and the table's settings. Members
// refuse a joiner with another value.
const kindKey = "membership"

func (c Config) withKind() []gossip.KeyValue {
	kind := gossip.KeyValue{Key: kindKey, Value: "gossip"}
	if c.Table.Enabled {
		kind.Value = c.Table.kind()
	}
	if slices.Contains(c.Compat, kind) {
		return c.Compat
	}
	return append(slices.Clip(c.Compat), kind)
}

// Validate returns an error that names an invalid setting. Call it on the result of WithDefaults.
func (c Config) Validate() error {
	if err := transport.CheckName("node", c.Self.Name); err != nil {
		return fmt.Errorf("configure membership: %w", err)
	}
	for _, seed := range c.Seeds {
		if err := transport.CheckName("seed", seed); err != nil {
			return fmt.Errorf("configure membership: %w", err)
		}
	}
	if len(c.Roles) > gossip.MaxRoles || len(c.Meta) > gossip.MaxKeyValues || len(c.Compat) > gossip.MaxKeyValues {
		return fmt.Errorf("configure membership: want at most %d roles, and %d entries of Meta and of Compat", gossip.MaxRoles, gossip.MaxKeyValues)
	}
	if n := gossip.DescriptionSize(c.Roles, c.Meta, c.Compat); n > gossip.MaxDescription {
		return fmt.Errorf("configure membership: Roles, Meta and Compat have %d bytes: want at most %d (host fewer types in one process?)", n, gossip.MaxDescription)
	}
	for _, role := range c.Roles {
		if !utf8.ValidString(role) {
			return fmt.Errorf("configure membership: role %q is not UTF-8", role)
		}
	}
	for _, list := range [][]gossip.KeyValue{c.Meta, c.Compat} {
		for i, kv := range list {
			if i > 0 && kv.Key == list[i-1].Key {
				return fmt.Errorf("configure membership: key %q occurs twice in Meta or Compat", kv.Key)
			}
			if !utf8.ValidString(kv.Key) || !utf8.ValidString(kv.Value) {
				return fmt.Errorf("configure membership: key %q or its value %q is not UTF-8", kv.Key, kv.Value)
			}
		}
	}
	return c.validateTimes()
}

func (c Config) validateTimes() error {
	if c.Founding && !c.ProbeVacancy {
		return fmt.Errorf("configure membership: Founding is set without ProbeVacancy (set both or none)")
	}
	for _, d := range []time.Duration{
		c.JoinTimeout, c.FormWindow, c.SeedTimeout, c.WeaklyUpAfter, c.GossipInterval, c.GossipMaxWait,
		c.HeartbeatInterval, c.PauseAllowance, c.EchoInterval, c.ProbeInterval, c.PauseThreshold,
		c.SelfHeartbeatTimeout, c.QuorumTimeout, c.GoneAfter, c.CutAfter, c.SilentAfter, c.AgreedAfter,
		c.StableAfter, c.AutoDownAfter, c.MinorityDelay,
	} {
		if d < 0 {
			return fmt.Errorf("configure membership: a duration is negative: %v (0 means the default)", d)
		}
	}
	switch {
	case c.MinMembers < 0 || c.MonitoredBy < 0 || c.SmallCluster < 0:
		return fmt.Errorf("configure membership: MinMembers, MonitoredBy or SmallCluster is negative (0 means the default)")
	case c.GossipSpeedup < 0 || c.GossipManyMembers < 0:
		return fmt.Errorf("configure membership: GossipSpeedup or GossipManyMembers is negative (0 means the default)")
	case c.Detection > gossip.DetectionSingleObserver:
		return fmt.Errorf("configure membership: Detection is %d, which is not a kind of detection", c.Detection)
	case c.GossipToUnseen < 0 || c.GossipToUnseen > 1:
		return fmt.Errorf("configure membership: GossipToUnseen is %v: want 0 to 1", c.GossipToUnseen)
	case !(c.PhiThreshold > 0) || c.PhiThreshold > 300:
		return fmt.Errorf("configure membership: PhiThreshold is %v: want more than 0, at most 300", c.PhiThreshold)
	case c.GoneAfter < c.SelfHeartbeatTimeout:
		return fmt.Errorf("configure membership: GoneAfter %v is below SelfHeartbeatTimeout %v: a live member would be replaced while it runs turns", c.GoneAfter, c.SelfHeartbeatTimeout)
	case c.CutAfter < c.QuorumTimeout || c.SilentAfter < c.QuorumTimeout || c.AgreedAfter < c.QuorumTimeout:
		return fmt.Errorf("configure membership: CutAfter %v, SilentAfter %v or AgreedAfter %v is below QuorumTimeout %v: a live member would be replaced while it runs turns",
			c.CutAfter, c.SilentAfter, c.AgreedAfter, c.QuorumTimeout)
	}
	if c.Table.Enabled {
		if err := c.Table.validate(c); err != nil {
			return err
		}
	}
	return c.validateDowning()
}

func (c Config) withDowning() Config {
	if c.Downing == splitbrain.DowningStaticQuorum {
		// With fewer members than the quorum no turns run, so none is made Up
		// before.
		if c.DowningRole == "" {
			c.MinMembers = max(c.MinMembers, c.QuorumSize)
		} else {
			c.MinRoleMembers = append(slices.Clip(c.MinRoleMembers), RoleMinimum{c.DowningRole, c.QuorumSize})
		}
	}
	return c
}

func (c Config) validateDowning() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("configure membership: "+format, args...)
	}
	byRole := c.Downing == splitbrain.DowningStaticQuorum || c.Downing == splitbrain.DowningKeepMajority ||
		c.Downing == splitbrain.DowningKeepOldest || c.Downing == splitbrain.DowningLeaseMajority
	switch {
	case c.Downing >= splitbrain.KnownDownings:
		return fail("Downing is %d, which is not a strategy", c.Downing)
	case c.DowningRole != "" && !byRole:
		return fail("DowningRole is %q: downing %q does not use a role", c.DowningRole, c.Downing)
	case !utf8.ValidString(c.DowningRole):
		return fail("DowningRole %q is not UTF-8", c.DowningRole)
	case (c.Downing == splitbrain.DowningAuto) != (c.AutoDownAfter > 0):
		return fail("Downing is %q and AutoDownAfter is %v: set both or neither", c.Downing, c.AutoDownAfter)
	case (c.Downing == splitbrain.DowningStaticQuorum) != (c.QuorumSize != 0) || c.QuorumSize < 0:
		return fail("Downing is %q and QuorumSize %d: want static quorum and at least 1, or neither", c.Downing, c.QuorumSize)
	case c.KeepOldestAlone && c.Downing != splitbrain.DowningKeepOldest:
		return fail("KeepOldestAlone is set and Downing is %q: it is for %q", c.Downing, splitbrain.DowningKeepOldest)
	case c.StableAfter < c.QuorumTimeout || c.AutoDownAfter > 0 && c.AutoDownAfter < c.QuorumTimeout:
		return fail("StableAfter %v or AutoDownAfter %v is below QuorumTimeout %v: a live member would be replaced while it runs turns",
			c.StableAfter, c.AutoDownAfter, c.QuorumTimeout)
	}
	return nil
}

// Votes reports whether a member has the role that DowningRole requires of voters.
func (c Config) Votes(r gossip.Member) bool { return r.HasRole(c.DowningRole) }
