package control

import (
	"slices"
	"strings"
	"time"

	"github.com/shardgen/shardgen/runtime/membership"
)

// seedPatience is how many times Config.SeedTimeout a seed may take to become a member
// before it is asked whether its name is right.
const seedPatience = 10

// seeds are the names that this process joins through and that were no members yet.
type seeds struct {
	names []string
	after time.Duration
	due   time.Time // when those that are left are logged; zero means they were
}

// begin starts waiting for the names, but for the process's own.
func (s *seeds) begin(names []string, self string, timeout time.Duration, now time.Time) {
	s.names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == self })
	s.after = seedPatience * timeout
	s.due = now.Add(s.after)
}

// seen takes a view: the name of a member was spelt right.
func (s *seeds) seen(v *membership.View) {
	s.names = slices.DeleteFunc(s.names, func(name string) bool {
		return slices.ContainsFunc(v.ByAddress, func(m membership.MemberView) bool { return m.Name == name })
	})
}

// tick logs, once, the names that no member has had for too long. Nothing else would show a
// wrong name, because other seeds let the process in as well.
func (s *seeds) tick(now time.Time, log func(l Level, text string, args ...any)) {
	if !due(s.due, now) {
		return
	}
	s.due = time.Time{}
	if len(s.names) > 0 {
		log(Warn, "no member has the name of a seed: is it spelt right, and does it run?",
			"seeds", strings.Join(s.names, " "), "after", s.after)
	}
}
