package membership

import (
	"slices"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// A quorum says which sets of voters are enough: to run turns while they all
// count on one another, and so also to take that away from others. Any two sets
// that are enough share a voter, for every way of downing but DowningAuto; that
// is why two sides never run turns at once.
type quorum struct {
	voters  []transport.Address // by address
	need    int                 // so many of them …
	anchors []transport.Address // … and these among them
	// spare: all voters but this one are enough too. Zero: there is none.
	spare transport.Address
}

// met tells whether the voters for which has is true are enough.
func (q quorum) met(has func(transport.Address) bool) bool {
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
	return votes >= q.need && !slices.ContainsFunc(q.anchors, func(a transport.Address) bool { return !has(a) })
}

// since is the latest time for which those that were heard at it or later are
// enough. Without such a time it is the zero time.
func (q quorum) since(heard func(transport.Address) time.Time) time.Time {
	times := make([]time.Time, len(q.voters))
	for i, node := range q.voters {
		times[i] = heard(node)
	}
	return q.sinceTimes(times, heard)
}

// sinceTimes is since for those who know when each of the voters was heard. It
// changes the order of times.
func (q quorum) sinceTimes(times []time.Time, heard func(transport.Address) time.Time) time.Time {
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
	if q.need > 0 && q.need <= len(times) {
		enough = times[q.need-1]
		for _, node := range q.anchors {
			if at := heard(node); at.Before(enough) {
				enough = at
			}
		}
	}
	if !first {
		enough = maxTime(enough, others)
	}
	return enough
}

// majorityOf is more than half.
func majorityOf(n int) int { return n/2 + 1 }
