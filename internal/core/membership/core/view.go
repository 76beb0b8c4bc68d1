package core

import (
	"slices"

	"github.com/shardgen/shardgen/internal/core/membership/gossip"
	"github.com/shardgen/shardgen/internal/core/membership/rows"
	"github.com/shardgen/shardgen/transport"
)

// A View is the cluster as one node sees it at one moment. A View never changes, so it may be
// shared freely. Do not modify its slices.
type View struct {
	Self       transport.Address // the node that has this view
	SelfStatus gossip.Status     // Removed once the machine has ended
	Founder    transport.Address // the founder, which distinguishes clusters of one name
	// ByAge holds the members from the oldest to the youngest; those that never
	// were Up come last. ByAddress holds the same members by address.
	ByAge     []gossip.MemberView
	ByAddress []gossip.MemberView
	Leader    transport.Address // the member that may act for the cluster; zero means none
	// Converged reports whether all members that must see this view have seen it: then the leader
	// can act. If not, Why names the obstacle.
	Converged bool
	Why       string
	// Table is what the node knows of the membership table; nil with gossip. A new version of the
	// table alone makes no new View. Health is the node's score of its own health, from 0 to 8.
	Table  *rows.Table
	Health int
}

// Member returns the member with that address.
func (v *View) Member(a transport.Address) (gossip.MemberView, bool) {
	i, ok := slices.BinarySearchFunc(v.ByAddress, a, func(m gossip.MemberView, a transport.Address) int { return m.Compare(a) })
	if !ok {
		return gossip.MemberView{}, false
	}
	return v.ByAddress[i], true
}

// Oldest returns the oldest of the members that were ever Up and have one of the statuses.
func (v *View) Oldest(statuses ...gossip.Status) (gossip.MemberView, bool) {
	return v.OldestWithRole("", statuses...)
}

// OldestWithRole is like Oldest, but considers only members with the role.
func (v *View) OldestWithRole(role string, statuses ...gossip.Status) (gossip.MemberView, bool) {
	for _, m := range v.ByAge {
		if m.UpNumber != 0 && m.HasRole(role) && slices.Contains(statuses, m.Status) {
			return m, true
		}
	}
	return gossip.MemberView{}, false
}

// Count returns how many members have one of the statuses.
func (v *View) Count(statuses ...gossip.Status) int {
	n := 0
	for _, m := range v.ByAddress {
		if slices.Contains(statuses, m.Status) {
			n++
		}
	}
	return n
}

// Unreachable returns the addresses of the members that cannot be reached.
func (v *View) Unreachable() []transport.Address {
	var nodes []transport.Address
	for _, r := range v.ByAddress {
		if !r.Reachable {
			nodes = append(nodes, r.Address)
		}
	}
	return nodes
}
