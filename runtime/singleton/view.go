package singleton

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// View is the cluster as membership sees it now. It replaces the last one.
type View struct{ Members []Member }

func (View) input() {}

func (View) proxyInput() {}

// A Member has the properties of a member that managers and proxies need.
type Member struct {
	Address  transport.Address
	Status   Status
	UpNumber uint64 // age: the lower the older; 0 until the member was Up
	Roles    []string
}

// candidate reports whether the instance may run on the member. A member that leaves
// before it was ever Up has no age.
func (o Member) candidate(role string, handoffAt Status) bool {
	stays := o.Status == Up || o.Status == Leaving && handoffAt == Exiting
	return stays && o.UpNumber > 0 && o.has(role)
}

func (o Member) has(role string) bool { return role == "" || slices.Contains(o.Roles, role) }

// olderThan orders members by age, then address.
func (o Member) olderThan(p Member) bool {
	if o.UpNumber != p.UpNumber {
		return o.UpNumber < p.UpNumber
	}
	return o.Address.Compare(p.Address) < 0
}

// oldest returns the oldest candidate.
func (v View) oldest(role string, handoffAt Status) transport.Address {
	var first Member
	for _, o := range v.Members {
		if o.candidate(role, handoffAt) && (first.Address.IsZero() || o.olderThan(first)) {
			first = o
		}
	}
	return first.Address
}
