package shard

import (
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// seedPatience is how many times Config.Membership.SeedTimeout a seed may take to
// become a member before it is asked whether its name is right.
const seedPatience = 10

// seeds are the names that this node joins through and that were no members yet.
// It belongs to the control loop.
type seeds struct {
	names []string
	after time.Duration
	due   time.Time // when those that are left are told; zero: they were
}

// begin starts waiting for the names, but for the node's own.
func (s *seeds) begin(names []string, self string, timeout time.Duration, now time.Time) {
	s.names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == self })
	s.after = seedPatience * timeout
	s.due = now.Add(s.after)
}

// seen takes a view: who is a member was spelt right.
func (s *seeds) seen(v *membership.View) {
	if s.due.IsZero() {
		return
	}
	s.names = slices.DeleteFunc(s.names, func(name string) bool {
		return slices.ContainsFunc(v.ByAddress, func(m membership.MemberView) bool { return m.Name == name })
	})
}

// missing returns, once, the names of which none was a member for too long.
func (s *seeds) missing(now time.Time) []string {
	if s.due.IsZero() || now.Before(s.due) {
		return nil
	}
	s.due = time.Time{}
	return s.names
}

// tellSeeds says which seeds are of no use. Nothing else would: other members let
// a node in as well.
func (c *control) tellSeeds(now time.Time) {
	if names := c.seeds.missing(now); len(names) > 0 {
		c.node.log.Warn("no member has the name of a seed: is it spelt right, and does it run?",
			"seeds", strings.Join(names, " "), "after", c.seeds.after)
	}
}
