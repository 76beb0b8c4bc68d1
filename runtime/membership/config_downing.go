package membership

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// A Downing is the way in which unreachable members are judged. What follows
// from it for leases and fences is in the package's doc.
type Downing uint8

// The ways of downing. All but the first two go by who is reachable alone: they
// are those of Akka's split brain resolver, and do not ask the broker for proof.
const (
	// DowningBroker downs a member that the broker proves dead at once, and any
	// other unreachable one by keep-majority: the side that holds the majority of
	// the last converged Up members (of two halves, the one with the oldest)
	// downs the rest, and the other side stops.
	DowningBroker Downing = iota
	// DowningByHand downs nobody: an operator does.
	DowningByHand
	// DowningAuto lets the leader down whoever was unreachable for AutoDownAfter.
	// It is not safe: in a partition every side downs the others, and each goes on
	// as a cluster of its own, with an own home for every shard.
	DowningAuto
	// DowningStaticQuorum lets the side with at least QuorumSize members go on.
	// With fewer members up nothing runs, from the start on.
	DowningStaticQuorum
	// DowningKeepMajority lets the side with more than half of the members go on,
	// and of two halves the one with the oldest.
	DowningKeepMajority
	// DowningKeepOldest lets the side with the oldest member go on, however small,
	// unless the oldest is alone and KeepOldestAlone is not set.
	DowningKeepOldest
	// DowningAll lets nobody go on: all stop when anybody is unreachable.
	DowningAll
	// DowningLeaseMajority lets the side go on that takes a lease in a store that
	// all can reach; the smaller one waits for MinorityDelay before it tries. The
	// driver must carry [Output.TakeLease] out.
	DowningLeaseMajority

	downings
)

var downingNames = [downings]string{
	DowningBroker: "broker", DowningByHand: "by hand", DowningAuto: "auto", DowningStaticQuorum: "static quorum",
	DowningKeepMajority: "keep majority", DowningKeepOldest: "keep oldest", DowningAll: "down all",
	DowningLeaseMajority: "lease majority",
}

// String names the way of downing.
func (d Downing) String() string {
	if d < downings {
		return downingNames[d]
	}
	return "unknown"
}

// withDowning fills in what a way of downing implies.
func (c Config) withDowning() Config {
	if c.Downing == DowningStaticQuorum {
		// Fewer would be let up to find that nothing runs.
		if c.DowningRole == "" {
			c.MinMembers = max(c.MinMembers, c.QuorumSize)
		} else {
			c.MinRoleMembers = append(slices.Clip(c.MinRoleMembers), RoleMinimum{c.DowningRole, c.QuorumSize})
		}
	}
	add := func(key, value string) {
		if !slices.ContainsFunc(c.Compat, func(kv gossip.KeyValue) bool { return kv.Key == key }) {
			c.Compat = append(slices.Clip(c.Compat), gossip.KeyValue{Key: key, Value: value})
		}
	}
	add("downing", c.Downing.String())
	switch c.Downing {
	case DowningStaticQuorum:
		add("downing quorum size", strconv.Itoa(c.QuorumSize))
	case DowningKeepOldest:
		add("downing keeps the oldest alone", strconv.FormatBool(c.KeepOldestAlone))
	}
	if c.DowningRole != "" {
		add("downing role", c.DowningRole)
	}
	return c
}

// validateDowning returns an error for options that do not go together.
func (c Config) validateDowning() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("configure membership: "+format, args...)
	}
	byRole := c.Downing == DowningStaticQuorum || c.Downing == DowningKeepMajority ||
		c.Downing == DowningKeepOldest || c.Downing == DowningLeaseMajority
	switch {
	case c.Downing >= downings:
		return fail("Downing is %d, which is none", c.Downing)
	case c.DowningRole != "" && !byRole:
		return fail("DowningRole is %q: downing %q does not go by role", c.DowningRole, c.Downing)
	case !utf8.ValidString(c.DowningRole):
		return fail("DowningRole %q is not UTF-8", c.DowningRole)
	case (c.Downing == DowningAuto) != (c.AutoDownAfter > 0):
		return fail("Downing is %q and AutoDownAfter %v: they go together", c.Downing, c.AutoDownAfter)
	case (c.Downing == DowningStaticQuorum) != (c.QuorumSize != 0) || c.QuorumSize < 0:
		return fail("Downing is %q and QuorumSize %d: want static quorum and at least 1, or neither", c.Downing, c.QuorumSize)
	case c.KeepOldestAlone && c.Downing != DowningKeepOldest:
		return fail("KeepOldestAlone is set and Downing is %q: it is for %q", c.Downing, DowningKeepOldest)
	case c.StableAfter < c.LeaseMajority || c.AutoDownAfter > 0 && c.AutoDownAfter < c.LeaseMajority:
		return fail("StableAfter %v or AutoDownAfter %v is below LeaseMajority %v: a live member would be replaced while it runs turns",
			c.StableAfter, c.AutoDownAfter, c.LeaseMajority)
	}
	return nil
}
