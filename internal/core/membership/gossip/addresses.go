package gossip

import (
	"slices"
	"strings"

	"github.com/shardgen/shardgen/transport"
)

// HasAddress reports whether a sorted list holds the address.
func HasAddress(list []transport.Address, a transport.Address) bool {
	_, ok := slices.BinarySearchFunc(list, a, transport.Address.Compare)
	return ok
}

// WithAddress returns the sorted list with the address added if it is missing.
func WithAddress(list []transport.Address, a transport.Address) []transport.Address {
	i, ok := slices.BinarySearchFunc(list, a, transport.Address.Compare)
	if ok {
		return list
	}
	return slices.Insert(slices.Clone(list), i, a)
}

// WithAddresses returns the sorted list with the addresses of the list more added.
func WithAddresses(list, more []transport.Address) []transport.Address {
	for _, a := range more {
		list = WithAddress(list, a)
	}
	return list
}

// AddressesOf returns the addresses of members, in their order.
func AddressesOf(members []Member) []transport.Address {
	nodes := make([]transport.Address, len(members))
	for i, r := range members {
		nodes[i] = r.Address
	}
	return nodes
}

// Names returns the names of nodes, separated by spaces, for people.
func Names(list []transport.Address) string {
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = a.Name
	}
	return strings.Join(words, " ")
}

// FounderBefore orders nodes by their right to form a cluster: the lower incarnation
// comes first.
func FounderBefore(a, b transport.Address) bool {
	if a.Incarnation != b.Incarnation {
		return a.Incarnation < b.Incarnation
	}
	return a.Name < b.Name
}
