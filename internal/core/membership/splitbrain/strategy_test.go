package splitbrain

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// nodesOf returns one address for each letter of a word: "abc" is three nodes.
func nodesOf(word string) []transport.Address {
	var nodes []transport.Address
	for _, name := range word {
		nodes = append(nodes, transport.Address{Name: string(name), Incarnation: 1})
	}
	return nodes
}

// TestDecide: what each side of a split does. The voters are a to e unless a case names others. The
// oldest is a.
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name   string
		way    Strategy
		voters string
		side   string // x has no vote
		oldest string
		want   Verdict
	}{
		{"majority: three of five", keepMajority{}, "abcde", "cde", "a", GoOn},
		{"majority: two of five with the oldest", keepMajority{}, "abcde", "ab", "a", Stop},
		{"majority: half with the oldest", keepMajority{}, "abcd", "ab", "a", GoOn},
		{"majority: half without", keepMajority{}, "abcd", "cd", "a", Stop},
		{"majority: half, and the oldest is leaving", keepMajority{}, "abcd", "ab", "ac", Stop},
		{"majority: nobody has the role", keepMajority{}, "", "ab", "", Stop},
		{"majority: those without the role do not count", keepMajority{}, "abc", "abx", "a", GoOn},
		{"majority: only those without the role", keepMajority{}, "abc", "x", "a", Stop},

		{"static: enough", staticQuorum{3}, "abcde", "cde", "a", GoOn},
		{"static: one too few", staticQuorum{3}, "abcde", "ab", "a", Stop},
		{"static: enough of few", staticQuorum{3}, "abcd", "bcd", "a", GoOn},
		{"static: half is too few", staticQuorum{3}, "abcd", "ab", "a", Stop},
		{"static: too many members", staticQuorum{2}, "abcd", "abc", "a", StopAll},

		{"oldest: a small side", keepOldest{}, "abcde", "ab", "a", GoOn},
		{"oldest: a large side without", keepOldest{}, "abcde", "cde", "a", Stop},
		{"oldest: alone", keepOldest{}, "abcde", "a", "a", Stop},
		{"oldest: the others of one who is alone", keepOldest{}, "abcde", "bcde", "a", GoOn},
		{"oldest: not all the others", keepOldest{}, "abcde", "bcd", "a", Stop},
		{"oldest: one of two", keepOldest{}, "ab", "a", "a", GoOn},
		{"oldest: the other of two", keepOldest{}, "ab", "b", "a", Stop},
		{"oldest: alone and kept", keepOldest{alone: true}, "abcde", "a", "a", GoOn},
		{"oldest: the others of one who is kept", keepOldest{alone: true}, "abcde", "bcde", "a", Stop},
		{"oldest: it is leaving, and only that one is here", keepOldest{}, "abcde", "ac", "ab", Stop},
		{"oldest: it is leaving, and only the next is here", keepOldest{}, "abcde", "bc", "ab", Stop},
		{"oldest: it is leaving, and both are here", keepOldest{}, "abcde", "ab", "ab", GoOn},
		{"oldest: nobody has the role", keepOldest{}, "", "ab", "", Stop},

		{"all: the larger side", downAll{}, "abcde", "abcd", "a", StopAll},
		{"all: the smaller side", downAll{}, "abcde", "e", "a", StopAll},

		{"lease: the larger side", leaseMajority{}, "abcde", "cde", "a", AskFirst},
		{"lease: the smaller side", leaseMajority{}, "abcde", "ab", "a", AskLater},
		{"lease: half with the oldest", leaseMajority{}, "abcd", "ab", "a", AskFirst},
		{"lease: half without", leaseMajority{}, "abcd", "cd", "a", AskLater},
		{"lease: only those without the role", leaseMajority{}, "abc", "x", "a", Stop},

		{"auto: any side", autoDown{}, "abcde", "e", "a", GoOn},
	} {
		s := Split{Electorate{nodesOf(test.voters), nodesOf(test.oldest)}, nodesOf(test.side)}
		if got := test.way.Decide(s); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// safeWays are the strategies that promise that no two sides go on.
func safeWays(n int) map[string]Strategy {
	ways := map[string]Strategy{
		"keep majority": keepMajority{}, "keep oldest": keepOldest{}, "keep oldest alone": keepOldest{alone: true},
		"down all": downAll{}, "lease majority": leaseMajority{},
	}
	for size := n/2 + 1; size <= n+1; size++ { // n is at most 2*size-1
		ways[fmt.Sprint("static quorum ", size)] = staticQuorum{size}
	}
	return ways
}

// pick returns the nodes of a set of bits.
func pick(nodes []transport.Address, set uint) []transport.Address {
	var picked []transport.Address
	for i, node := range nodes {
		if set&(1<<i) != 0 {
			picked = append(picked, node)
		}
	}
	return picked
}

// TestNoTwoSides tries every split of up to seven voters in two sides. At most one side goes on,
// and no two disjoint sets are enough for turns. A side that goes on has taken the right to run
// turns from the others at once, or with a lease after some time.
func TestNoTwoSides(t *testing.T) {
	for n := 1; n <= 7; n++ {
		nodes := nodesOf("abcdefg"[:n])
		for name, way := range safeWays(n) {
			// Who is the oldest: one, or two while the oldest leaves.
			for _, oldest := range []uint{1, 1 << (n - 1), 3} {
				e := Electorate{nodes, pick(nodes, oldest)}
				q := way.Quorum(e)
				enough := func(set uint) bool {
					side := pick(nodes, set)
					return q.Met(func(a transport.Address) bool { return slices.Contains(side, a) })
				}
				all := uint(1)<<n - 1
				for set := uint(0); set <= all; set++ {
					rest := all &^ set
					one, other := way.Decide(Split{e, pick(nodes, set)}), way.Decide(Split{e, pick(nodes, rest)})
					if one == GoOn && other == GoOn || one == AskFirst && other == AskFirst {
						t.Errorf("%s, oldest %b: both %b and %b %v", name, oldest, set, rest, one)
					}
					if enough(set) && enough(rest) {
						t.Errorf("%s, oldest %b: both %b and %b are enough", name, oldest, set, rest)
					}
					if one == GoOn && enough(rest) {
						t.Errorf("%s, oldest %b: %b goes on, and %b is enough for turns", name, oldest, set, rest)
					}
					if enough(set) && set != all && !enough(all) {
						t.Errorf("%s, oldest %b: %b is enough, and all are not", name, oldest, set)
					}
				}
			}
		}
	}
}

// TestOldestLeaves: of three nodes with different knowledge of the oldest member's leaving, no two
// disjoint sides go on. The states are those from one convergence to the next, so only neighbouring
// states meet.
func TestOldestLeaves(t *testing.T) {
	const n = 5
	nodes := nodesOf("abcde")
	states := [][]transport.Address{nodesOf("a"), nodesOf("ab"), nodesOf("b")}
	for _, way := range []Strategy{keepMajority{}, keepOldest{}, keepOldest{alone: true}} {
		for i := range states[:2] {
			mine, theirs := Electorate{nodes, states[i]}, Electorate{nodes, states[i+1]}
			for set := uint(0); set < 1<<n; set++ {
				rest := (uint(1)<<n - 1) &^ set
				if way.Decide(Split{mine, pick(nodes, set)}) == GoOn && way.Decide(Split{theirs, pick(nodes, rest)}) == GoOn {
					t.Errorf("%T: %b goes on with oldest %v, and %b with %v", way, set, states[i], rest, states[i+1])
				}
			}
		}
	}
}

// TestQuorumSince: Since returns the latest time for which Met is true of the voters heard since
// then.
func TestQuorumSince(t *testing.T) {
	start := time.Unix(1000, 0)
	nodes := nodesOf("abcd")
	for name, way := range safeWays(len(nodes)) {
		for order := range 256 { // each was heard in one of four seconds
			heard := func(a transport.Address) time.Time {
				i := strings.Index("abcd", a.Name)
				return start.Add(time.Duration(order>>(2*i)&3) * time.Second)
			}
			q := way.Quorum(Electorate{nodes, nodesOf("b")})
			var want time.Time
			for s := range 4 {
				at := start.Add(time.Duration(s) * time.Second)
				if q.Met(func(a transport.Address) bool { return !heard(a).Before(at) }) {
					want = at
				}
			}
			if got := q.Since(heard); !got.Equal(want) {
				t.Fatalf("%s, heard %08b: got %v, want %v", name, order, got, want)
			}
		}
	}
}

// TestQuorumSizes: how many of n are enough.
func TestQuorumSizes(t *testing.T) {
	smallest := func(q Quorum, n int) int {
		least := n + 1
		for set := uint(0); set < 1<<n; set++ {
			side := pick(nodesOf("abcdefg"[:n]), set)
			if q.Met(func(a transport.Address) bool { return slices.Contains(side, a) }) {
				least = min(least, bits.OnesCount(set))
			}
		}
		return least
	}
	for _, test := range []struct {
		way  Strategy
		want [5]int // of 1 to 5; one more than there are: never
	}{
		{keepMajority{}, [5]int{1, 2, 2, 3, 3}},
		{keepOldest{}, [5]int{1, 2, 2, 3, 3}},
		{staticQuorum{2}, [5]int{2, 2, 2, 3, 3}},
		{staticQuorum{3}, [5]int{2, 3, 3, 3, 3}},
		{downAll{}, [5]int{1, 2, 2, 3, 3}},
	} {
		for n := 1; n <= 5; n++ {
			got := smallest(test.way.Quorum(Electorate{nodesOf("abcde"[:n]), nodesOf("a")}), n)
			if got != test.want[n-1] {
				t.Errorf("%T of %d: got %d, want %d", test.way, n, got, test.want[n-1])
			}
		}
	}
}
