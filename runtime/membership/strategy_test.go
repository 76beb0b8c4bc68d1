package membership

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardgen/shardgen/transport"
)

// nodesOf makes addresses of a word: "abc" is three nodes.
func nodesOf(word string) []transport.Address {
	var nodes []transport.Address
	for _, name := range word {
		nodes = append(nodes, addr(string(name), 1))
	}
	return nodes
}

// TestDecide: what each side of a split does. Voters are a to e unless said; a is
// the oldest.
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name   string
		way    strategy
		voters string
		side   string // x has no vote
		oldest string
		want   verdict
	}{
		{"majority: three of five", keepMajority{}, "abcde", "cde", "a", goOn},
		{"majority: two of five with the oldest", keepMajority{}, "abcde", "ab", "a", stop},
		{"majority: half with the oldest", keepMajority{}, "abcd", "ab", "a", goOn},
		{"majority: half without", keepMajority{}, "abcd", "cd", "a", stop},
		{"majority: half, and the oldest is leaving", keepMajority{}, "abcd", "ab", "ac", stop},
		{"majority: nobody has the role", keepMajority{}, "", "ab", "", stop},
		{"majority: those without the role do not count", keepMajority{}, "abc", "abx", "a", goOn},
		{"majority: only those without the role", keepMajority{}, "abc", "x", "a", stop},

		{"static: enough", staticQuorum{3}, "abcde", "cde", "a", goOn},
		{"static: one too few", staticQuorum{3}, "abcde", "ab", "a", stop},
		{"static: enough of few", staticQuorum{3}, "abcd", "bcd", "a", goOn},
		{"static: half is too few", staticQuorum{3}, "abcd", "ab", "a", stop},
		{"static: too many members", staticQuorum{2}, "abcd", "abc", "a", stopAll},

		{"oldest: a small side", keepOldest{}, "abcde", "ab", "a", goOn},
		{"oldest: a large side without", keepOldest{}, "abcde", "cde", "a", stop},
		{"oldest: alone", keepOldest{}, "abcde", "a", "a", stop},
		{"oldest: the others of one who is alone", keepOldest{}, "abcde", "bcde", "a", goOn},
		{"oldest: not all the others", keepOldest{}, "abcde", "bcd", "a", stop},
		{"oldest: one of two", keepOldest{}, "ab", "a", "a", goOn},
		{"oldest: the other of two", keepOldest{}, "ab", "b", "a", stop},
		{"oldest: alone and kept", keepOldest{alone: true}, "abcde", "a", "a", goOn},
		{"oldest: the others of one who is kept", keepOldest{alone: true}, "abcde", "bcde", "a", stop},
		{"oldest: it is leaving, and only that one is here", keepOldest{}, "abcde", "ac", "ab", stop},
		{"oldest: it is leaving, and only the next is here", keepOldest{}, "abcde", "bc", "ab", stop},
		{"oldest: it is leaving, and both are here", keepOldest{}, "abcde", "ab", "ab", goOn},
		{"oldest: nobody has the role", keepOldest{}, "", "ab", "", stop},

		{"all: the larger side", downAll{}, "abcde", "abcd", "a", stopAll},
		{"all: the smaller side", downAll{}, "abcde", "e", "a", stopAll},

		{"lease: the larger side", leaseMajority{}, "abcde", "cde", "a", askFirst},
		{"lease: the smaller side", leaseMajority{}, "abcde", "ab", "a", askLater},
		{"lease: half with the oldest", leaseMajority{}, "abcd", "ab", "a", askFirst},
		{"lease: half without", leaseMajority{}, "abcd", "cd", "a", askLater},
		{"lease: only those without the role", leaseMajority{}, "abc", "x", "a", stop},

		{"auto: any side", autoDown{}, "abcde", "e", "a", goOn},
	} {
		s := split{electorate{nodesOf(test.voters), nodesOf(test.oldest)}, nodesOf(test.side)}
		if got := test.way.decide(s); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// safeWays are the strategies that promise that no two sides go on.
func safeWays(n int) map[string]strategy {
	ways := map[string]strategy{
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

// TestNoTwoSides tries every split of up to seven voters in two: at most one goes
// on, no two sets that are apart are enough for turns, and whoever goes on has
// taken that away from the others, now or, under a lease, by time.
func TestNoTwoSides(t *testing.T) {
	for n := 1; n <= 7; n++ {
		nodes := nodesOf("abcdefg"[:n])
		for name, way := range safeWays(n) {
			// Who is the oldest: one, or two while the oldest leaves.
			for _, oldest := range []uint{1, 1 << (n - 1), 3} {
				e := electorate{nodes, pick(nodes, oldest)}
				q := way.quorum(e)
				enough := func(set uint) bool {
					side := pick(nodes, set)
					return q.met(func(a transport.Address) bool { return slices.Contains(side, a) })
				}
				all := uint(1)<<n - 1
				for set := uint(0); set <= all; set++ {
					rest := all &^ set
					one, other := way.decide(split{e, pick(nodes, set)}), way.decide(split{e, pick(nodes, rest)})
					if one == goOn && other == goOn || one == askFirst && other == askFirst {
						t.Errorf("%s, oldest %b: both %b and %b %v", name, oldest, set, rest, one)
					}
					if enough(set) && enough(rest) {
						t.Errorf("%s, oldest %b: both %b and %b are enough", name, oldest, set, rest)
					}
					if one == goOn && enough(rest) {
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

// TestOldestLeaves: of three nodes that know differently much of the oldest's
// leaving, no two that are apart go on. The states are those between one
// convergence and the next; the first and the last cannot meet.
func TestOldestLeaves(t *testing.T) {
	const n = 5
	nodes := nodesOf("abcde")
	states := [][]transport.Address{nodesOf("a"), nodesOf("ab"), nodesOf("b")}
	for _, way := range []strategy{keepMajority{}, keepOldest{}, keepOldest{alone: true}} {
		for i := range states[:2] {
			mine, theirs := electorate{nodes, states[i]}, electorate{nodes, states[i+1]}
			for set := uint(0); set < 1<<n; set++ {
				rest := (uint(1)<<n - 1) &^ set
				if way.decide(split{mine, pick(nodes, set)}) == goOn && way.decide(split{theirs, pick(nodes, rest)}) == goOn {
					t.Errorf("%T: %b goes on with oldest %v, and %b with %v", way, set, states[i], rest, states[i+1])
				}
			}
		}
	}
}

// TestQuorumSince: the time for which a quorum was heard is the latest that met
// says yes to.
func TestQuorumSince(t *testing.T) {
	start := time.Unix(1000, 0)
	nodes := nodesOf("abcd")
	for name, way := range safeWays(len(nodes)) {
		for order := range 256 { // each was heard in one of four seconds
			heard := func(a transport.Address) time.Time {
				i := strings.Index("abcd", a.Name)
				return start.Add(time.Duration(order>>(2*i)&3) * time.Second)
			}
			q := way.quorum(electorate{nodes, nodesOf("b")})
			var want time.Time
			for s := range 4 {
				at := start.Add(time.Duration(s) * time.Second)
				if q.met(func(a transport.Address) bool { return !heard(a).Before(at) }) {
					want = at
				}
			}
			if got := q.since(heard); !got.Equal(want) {
				t.Fatalf("%s, heard %08b: got %v, want %v", name, order, got, want)
			}
		}
	}
}

// TestQuorumSizes: how many of n are enough.
func TestQuorumSizes(t *testing.T) {
	smallest := func(q quorum, n int) int {
		least := n + 1
		for set := uint(0); set < 1<<n; set++ {
			side := pick(nodesOf("abcdefg"[:n]), set)
			if q.met(func(a transport.Address) bool { return slices.Contains(side, a) }) {
				least = min(least, bits.OnesCount(set))
			}
		}
		return least
	}
	for _, test := range []struct {
		way  strategy
		want [5]int // of 1 to 5; one more than there are: never
	}{
		{keepMajority{}, [5]int{1, 2, 2, 3, 3}},
		{keepOldest{}, [5]int{1, 2, 2, 3, 3}},
		{staticQuorum{2}, [5]int{2, 2, 2, 3, 3}},
		{staticQuorum{3}, [5]int{2, 3, 3, 3, 3}},
		{downAll{}, [5]int{1, 2, 2, 3, 3}},
	} {
		for n := 1; n <= 5; n++ {
			got := smallest(test.way.quorum(electorate{nodesOf("abcde"[:n]), nodesOf("a")}), n)
			if got != test.want[n-1] {
				t.Errorf("%T of %d: got %d, want %d", test.way, n, got, test.want[n-1])
			}
		}
	}
}
