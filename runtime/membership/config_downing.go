package membership

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/shardgen/shardgen/internal/membership/splitbrain"

	"github.com/shardgen/shardgen/internal/membership/gossip"
)

// withDowning fills in what a way of downing implies.
func (c Config) withDowning() Config {
	if c.Downing == splitbrain.DowningStaticQuorum {
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
	case splitbrain.DowningStaticQuorum:
		add("downing quorum size", strconv.Itoa(c.QuorumSize))
	case splitbrain.DowningKeepOldest:
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
	byRole := c.Downing == splitbrain.DowningStaticQuorum || c.Downing == splitbrain.DowningKeepMajority ||
		c.Downing == splitbrain.DowningKeepOldest || c.Downing == splitbrain.DowningLeaseMajority
	switch {
	case c.Downing >= splitbrain.KnownDownings:
		return fail("Downing is %d, which is none", c.Downing)
	case c.DowningRole != "" && !byRole:
		return fail("DowningRole is %q: downing %q does not go by role", c.DowningRole, c.Downing)
	case !utf8.ValidString(c.DowningRole):
		return fail("DowningRole %q is not UTF-8", c.DowningRole)
	case (c.Downing == splitbrain.DowningAuto) != (c.AutoDownAfter > 0):
		return fail("Downing is %q and AutoDownAfter %v: they go together", c.Downing, c.AutoDownAfter)
	case (c.Downing == splitbrain.DowningStaticQuorum) != (c.QuorumSize != 0) || c.QuorumSize < 0:
		return fail("Downing is %q and QuorumSize %d: want static quorum and at least 1, or neither", c.Downing, c.QuorumSize)
	case c.KeepOldestAlone && c.Downing != splitbrain.DowningKeepOldest:
		return fail("KeepOldestAlone is set and Downing is %q: it is for %q", c.Downing, splitbrain.DowningKeepOldest)
	case c.StableAfter < c.LeaseMajority || c.AutoDownAfter > 0 && c.AutoDownAfter < c.LeaseMajority:
		return fail("StableAfter %v or AutoDownAfter %v is below LeaseMajority %v: a live member would be replaced while it runs turns",
			c.StableAfter, c.AutoDownAfter, c.LeaseMajority)
	}
	return nil
}
