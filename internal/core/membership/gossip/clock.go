package gossip

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shardgen/shardgen/transport"
)

// An Ordering is the relation of one version to another.
type Ordering uint8

// The relations of two versions.
const (
	Same Ordering = iota
	Before
	After
	Concurrent
)

// String returns the name of the ordering.
func (o Ordering) String() string {
	switch o {
	case Same:
		return "same"
	case Before:
		return "before"
	case After:
		return "after"
	case Concurrent:
		return "concurrent"
	}
	return "unknown"
}

// A VectorClock is the version of a [State]: the number of changes by each node,
// sorted by address, without zero counts. It is a value: methods return new ones.
type VectorClock []ClockEntry

// A ClockEntry is one node's count of changes.
type ClockEntry struct {
	Node  transport.Address // the node that made the changes
	Count uint64            // the number of changes; at least 1
}

// Count returns the node's count, 0 if it has none.
func (v VectorClock) Count(node transport.Address) uint64 {
	if i, ok := v.find(node); ok {
		return v[i].Count
	}
	return 0
}

func (v VectorClock) find(node transport.Address) (int, bool) {
	return slices.BinarySearchFunc(v, node, func(e ClockEntry, a transport.Address) int { return e.Node.Compare(a) })
}

// Increment counts one more change by node.
func (v VectorClock) Increment(node transport.Address) VectorClock {
	v = slices.Clone(v)
	i, ok := v.find(node)
	if !ok {
		return slices.Insert(v, i, ClockEntry{node, 1})
	}
	v[i].Count++
	return v
}

// Prune returns v without the nodes for which drop is true.
func (v VectorClock) Prune(drop func(transport.Address) bool) VectorClock {
	if !slices.ContainsFunc(v, func(e ClockEntry) bool { return drop(e.Node) }) {
		return v
	}
	return slices.DeleteFunc(slices.Clone(v), func(e ClockEntry) bool { return drop(e.Node) })
}

// Compare returns whether v is before w, after it, the same, or concurrent.
func (v VectorClock) Compare(w VectorClock) Ordering {
	less, more := false, false
	for i, j := 0, 0; i < len(v) || j < len(w); {
		switch c := compareAt(v, w, i, j); {
		case c < 0:
			more = true
			i++
		case c > 0:
			less = true
			j++
		default:
			less = less || v[i].Count < w[j].Count
			more = more || v[i].Count > w[j].Count
			i++
			j++
		}
	}
	switch {
	case less && more:
		return Concurrent
	case less:
		return Before
	case more:
		return After
	}
	return Same
}

func compareAt(v, w VectorClock, i, j int) int {
	switch {
	case i == len(v):
		return 1
	case j == len(w):
		return -1
	}
	return v[i].Node.Compare(w[j].Node)
}

// Merge returns the clock with the higher of the two counts of each node.
func (v VectorClock) Merge(w VectorClock) VectorClock {
	merged := make(VectorClock, 0, max(len(v), len(w)))
	for i, j := 0, 0; i < len(v) || j < len(w); {
		switch c := compareAt(v, w, i, j); {
		case c < 0:
			merged = append(merged, v[i])
			i++
		case c > 0:
			merged = append(merged, w[j])
			j++
		default:
			merged = append(merged, ClockEntry{v[i].Node, max(v[i].Count, w[j].Count)})
			i++
			j++
		}
	}
	return merged
}

// String returns the counts by name: "a:3 b:1".
func (v VectorClock) String() string {
	words := make([]string, len(v))
	for i, e := range v {
		words[i] = fmt.Sprintf("%s:%d", e.Node.Name, e.Count)
	}
	return strings.Join(words, " ")
}

// A Digest is a fingerprint of a version: 16 bytes that identify a clock.
type Digest [2]uint64

// digest returns the fingerprint of the clock and its cluster, and the sum of its counts. A version
// cannot cover another version with the same or a higher sum.
func (v VectorClock) digest(founder uint64) (d Digest, changes uint64) {
	d[0], d[1] = founder, mix(founder)
	for _, e := range v {
		h := RingPlace(e.Node)
		d[0] += mix(h ^ mix(e.Count))
		d[1] += mix(h + mix(e.Count+1))
		changes += e.Count
	}
	return d, changes
}
