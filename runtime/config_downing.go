package shard

import (
	"errors"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// A DowningStrategy is the rule by which unreachable members are judged. Its String
// method names it.
type DowningStrategy = membership.Downing

// The downing strategies. All but the first two use only reachability. DowningAuto judges
// after AutoDownAfter, and those behind it after StableAfter. Package membership describes
// which turns may run meanwhile under each.
const (
	// DowningBroker downs a member at once when it is gone (the broker reports no subscriber for
	// it), and any other unreachable member by majority. It is the default.
	DowningBroker = membership.DowningBroker
	// DowningManual downs nobody by itself: operators do, by [Node.Down] or shardctl
	// down.
	DowningManual = membership.DowningManual
	// DowningAuto downs a member that was unreachable for AutoDownAfter. It splits the
	// cluster in a partition, so it is refused together with hosted types.
	DowningAuto = membership.DowningAuto
	// DowningStaticQuorum lets the side with QuorumSize members go on; with fewer
	// members up nothing runs.
	DowningStaticQuorum = membership.DowningStaticQuorum
	// DowningKeepMajority lets the side with more than half of the members go on, or of
	// two halves the one with the oldest member.
	DowningKeepMajority = membership.DowningKeepMajority
	// DowningKeepOldest lets the side with the oldest member go on, or all others
	// if it is alone.
	DowningKeepOldest = membership.DowningKeepOldest
	// DowningAll stops all nodes when any member is unreachable.
	DowningAll = membership.DowningAll
	// DowningLeaseMajority keeps the side that takes a lease in Config.Store. The larger side tries
	// first. It is meant for clusters of up to a few hundred members.
	DowningLeaseMajority = membership.DowningLeaseMajority
)

// DowningOptions configures how unreachable members are judged. All fields must be equal
// at all members: a node that differs is refused at joining.
type DowningOptions struct {
	// Strategy is the rule. Default DowningBroker.
	Strategy DowningStrategy
	// Role restricts the vote of DowningStaticQuorum, DowningKeepMajority,
	// DowningKeepOldest and DowningLeaseMajority to members with it. Default: all
	// vote.
	Role string
	// StableAfter is how long the set of unreachable members must be stable before the strategy
	// decides. A set that keeps changing is decided after twice StableAfter, or up to 5s later.
	// Default 20s, at least Membership.QuorumTimeout. DowningBroker, DowningManual and DowningAuto
	// do not use it.
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

// configure sets the core's config.
func (d DowningOptions) configure(c *membership.Config) {
	c.Downing, c.DowningRole, c.StableAfter = d.Strategy, d.Role, d.StableAfter
	c.AutoDownAfter, c.QuorumSize, c.KeepOldestAlone = d.AutoDownAfter, d.QuorumSize, d.KeepOldestAlone
	c.MinorityDelay = d.MinorityDelay
}

// validate adds the faults of the options; the core knows which options
// exclude each other. stored reports whether there is a store.
func (d DowningOptions) validate(leaseMajority time.Duration, stored bool, bad func(ok bool, format string, args ...any)) {
	const at = "Membership.Downing."
	bad(d.StableAfter >= leaseMajority, at+"StableAfter is %v: want at least Membership.QuorumTimeout (%v)", d.StableAfter, leaseMajority)
	bad(d.AutoDownAfter == 0 || d.AutoDownAfter >= leaseMajority, at+"AutoDownAfter is %v: want at least Membership.QuorumTimeout (%v)", d.AutoDownAfter, leaseMajority)
	bad(d.MinorityDelay >= 0, at+"MinorityDelay is %v: want 0 for the default, or more", d.MinorityDelay)
	bad(d.Strategy != DowningLeaseMajority || stored, at+"Strategy is %q, and Config.Store is nil: set what natsstore.Open returns", d.Strategy)
}

var errAutoDown = errors.New("auto-down splits a cluster in a partition, and every entity would be alive on each side " +
	"(choose another Membership.Downing.Strategy, or set AutoDownDespiteSharding)")

// check refuses options that are unsafe for a node with hosted types.
func (d DowningOptions) check(hosts bool) error {
	if d.Strategy == DowningAuto && hosts && !d.AutoDownDespiteSharding {
		return errAutoDown
	}
	return nil
}
