// Package identity divides processes into classes. The broker's permissions decide by class what a
// process may send, and to whom.
//
// The class of a process stands in the two highest bits of its incarnation, so that an address
// names it: processes of different classes never share an address, and what is kept by address is
// kept by class, name and incarnation. A transport takes the class of a sender from the subject,
// guarded by the broker's permissions. It drops messages whose address has another class.
package identity

import "math/rand/v2"

// A Class is what a process may be for others.
type Class uint8

// The classes.
const (
	Member   Class = iota // of the cluster, or about to join
	Client                // calls entities from outside
	Reader                // asks for an operator
	Operator              // commands for an operator
)

const classShift = 62

// Of returns the class that an incarnation names.
func Of(incarnation uint64) Class { return Class(incarnation >> classShift) }

// New returns a random incarnation of a class.
func New(c Class) uint64 { return Mark(c, rand.Uint64()) }

// Mark returns an incarnation of a class with the lower 62 bits of n.
func Mark(c Class, n uint64) uint64 {
	const low = 1<<classShift - 1
	return uint64(c)<<classShift | n&low
}

// String is the name of the class.
func (c Class) String() string {
	switch c {
	case Member:
		return "member"
	case Client:
		return "client"
	case Reader:
		return "reader"
	}
	return "operator"
}
