package splitbrain

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A Quorum describes the sufficient sets of voters for a node. The node may run turns while all
// voters of one sufficient set vouch for it. Any two sufficient sets share a voter, so two sides
// that count the same voters never run turns at once. A decision to down members changes the voters
// that a side counts. After it, the smaller side of leaseMajority waits until the other side's
// turns have ended; autoDown does not wait.
type Quorum struct {
	voters  []transport.Address // by address
	Need    int                 // the least number of voters in a set
	anchors []transport.Address // the voters that a set must include
	// Unless spare is zero, all voters except spare are a sufficient set, too.
	spare transport.Address
}

// Met reports whether the voters accepted by the function has are a sufficient set.
func (q Quorum) Met(has func(transport.Address) bool) bool {
	votes, others := 0, 0
	for _, node := range q.voters {
		if has(node) {
			votes++
			if node != q.spare {
				others++
			}
		}
	}
	if !q.spare.IsZero() && others >= len(q.voters)-1 {
		return true
	}
	return votes >= q.Need && !slices.ContainsFunc(q.anchors, func(a transport.Address) bool { return !has(a) })
}

// Since returns the latest time since which a sufficient set was heard, or zero. heard returns when
// a voter was last heard.
func (q Quorum) Since(heard func(transport.Address) time.Time) time.Time {
	times := make([]time.Time, len(q.voters))
	for i, node := range q.voters {
		times[i] = heard(node)
	}
	return q.SinceTimes(times, heard)
}

// SinceTimes does the same as Since. times says when each voter was heard, in the order of the
// voters; SinceTimes reorders times.
func (q Quorum) SinceTimes(times []time.Time, heard func(transport.Address) time.Time) time.Time {
	var others time.Time // since when all but the spare one were heard
	first := true
	if !q.spare.IsZero() {
		for i, at := range times {
			if q.voters[i] != q.spare && (first || at.Before(others)) {
				others, first = at, false
			}
		}
	}
	slices.SortFunc(times, func(a, b time.Time) int { return b.Compare(a) })
	var enough time.Time
	if q.Need > 0 && q.Need <= len(times) {
		enough = times[q.Need-1]
		for _, node := range q.anchors {
			if at := heard(node); at.Before(enough) {
				enough = at
			}
		}
	}
	if !first && others.After(enough) {
		enough = others
	}
	return enough
}

// MajorityOf returns the smallest number that is more than half of n.
func MajorityOf(n int) int { return n/2 + 1 }

// staticQuorum lets a side with at least size votes go on. A node needs size votes to run turns.
// The leader makes at most 2*size-1 voters Up, so no two sides have size votes each. If nodes with
// different settings make more voters Up, all members stop.
type staticQuorum struct{ size int }

func (q staticQuorum) Decide(s Split) Verdict {
	switch {
	case len(s.Voters) > q.most():
		return StopAll
	case s.Votes() >= q.size:
		return GoOn
	}
	return Stop
}

// most returns the largest safe number of voters.
func (q staticQuorum) most() int { return 2*q.size - 1 }

func (q staticQuorum) Quorum(v Electorate) Quorum {
	// If there are too many voters, the quorum is more than half of them.
	return Quorum{voters: v.Voters, Need: max(q.size, MajorityOf(len(v.Voters)))}
}
