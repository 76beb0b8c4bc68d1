package gossip

import (
	"slices"

	"github.com/shardgen/shardgen/transport"
)

// RingPlace returns a node's place on the ring, where each member watches the next members. All
// nodes compute the same place: the FNV-1a hash of the address as text. The hash is written out
// because RingPlace is called often. The place is independent of the order of names: otherwise
// machines of one rack, which have consecutive names, would all watch each other.
func RingPlace(a transport.Address) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(a.Name) {
		h = (h ^ uint64(a.Name[i])) * prime
	}
	h = (h ^ '#') * prime
	for shift := 60; shift >= 0; shift -= 4 {
		h = (h ^ uint64("0123456789abcdef"[a.Incarnation>>shift&15])) * prime
	}
	return mix(h)
}

// mix is the finalizer of splitmix64. FNV alone would place similar names close together.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A Ring holds the members that are not Down in the order of their places.
type Ring struct {
	spots []ringSpot
}

type ringSpot struct {
	place  uint64
	member int
}

// NewRing returns the ring of the members that are not Down.
func NewRing(members []Member) Ring {
	r := Ring{make([]ringSpot, 0, len(members))}
	for i, m := range members {
		if m.Status != Down {
			r.spots = append(r.spots, ringSpot{RingPlace(m.Address), i})
		}
	}
	slices.SortFunc(r.spots, func(a, b ringSpot) int {
		switch {
		case a.place < b.place:
			return -1
		case a.place > b.place:
			return 1
		}
		return a.member - b.member // Members are in the order of addresses
	})
	return r
}

// After calls the function more with the index of each member after place on the ring, in order,
// until more returns false. A member exactly at place comes last.
func (r Ring) After(place uint64, more func(member int) bool) {
	r.walk(place, 1, more)
}

// Before is After in the opposite direction.
func (r Ring) Before(place uint64, more func(member int) bool) {
	r.walk(place, -1, more)
}

func (r Ring) walk(place uint64, step int, more func(member int) bool) {
	n := len(r.spots)
	i, found := slices.BinarySearchFunc(r.spots, place, func(s ringSpot, place uint64) int {
		switch {
		case s.place < place:
			return -1
		case s.place > place:
			return 1
		}
		return 0
	})
	if step > 0 && !found {
		i-- // the next one is the first behind the place
	}
	for k := 1; k <= n; k++ {
		if !more(r.spots[((i+k*step)%n+n)%n].member) {
			return
		}
	}
}

// Neighbours returns the members that self watches: the next n reachable members on the ring, and
// the unreachable ones between them, to notice their return.
func (r Ring) Neighbours(members []Member, self transport.Address, n int, evidence []Evidence) []transport.Address {
	var nodes []transport.Address
	counted := 0
	r.After(RingPlace(self), func(i int) bool {
		if counted == n {
			return false
		}
		if members[i].Address != self {
			nodes = append(nodes, members[i].Address)
			if evidence[i] == NoEvidence {
				counted++
			}
		}
		return counted < n
	})
	return nodes
}

// Walk calls the function more with the index of each member, in the order of the ring, until more
// returns false.
func (r Ring) Walk(more func(member int) bool) {
	for _, spot := range r.spots {
		if !more(spot.member) {
			return
		}
	}
}
